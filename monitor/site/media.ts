/**
 * `/media/screenshots/{slug}/{yyyy-mm}.webp` (spec 8.3): pictures of sites that are published now. Like assets they cost no
 * quota; what is kept of them and how many are read at once is bounded by the images (screenshots/image-cache.ts).
 */
import type { Headers } from '../api/errors.ts'
import { ApiError } from '../api/errors.ts'
import { type ResponseContent, toContent } from '../api/response.ts'
import { siteIndex } from '../api/site-index.ts'
import { TooManyReadsError } from '../screenshots/image-cache.ts'
import type { Snapshot } from '../storage/snapshot.ts'
import type { Images } from './options.ts'

export const MEDIA = '/media/screenshots/'
export const MEDIA_PATTERN = '/media/screenshots/{slug}/{month}.webp'
const PATH = /^\/media\/screenshots\/([a-z0-9-]{1,63})\/([0-9]{4}-[0-9]{2})\.webp$/
const PATH_CHARS_MAX = 128

const HEADERS: Headers = [
  ['X-Content-Type-Options', 'nosniff'],
  ['Content-Security-Policy', "default-src 'none'; sandbox"],
]

/** Whether the path has the form of a picture's; other methods than GET and HEAD get 405 there. */
export function isMediaPath(path: string): boolean {
  return path.length <= PATH_CHARS_MAX && PATH.test(path)
}

/** Returns null if the picture does not exist. Throws ApiError `not_ready` before data is loaded and when too many reads are pending. */
export async function mediaContent(
  path: string,
  snapshot: Snapshot | null,
  images: Images,
): Promise<ResponseContent | null> {
  if (snapshot === null) throw new ApiError('not_ready', 'the catalogue is not loaded yet')
  const match = path.length > PATH_CHARS_MAX ? null : PATH.exec(path)
  const site = match && siteIndex(snapshot).bySlug(match[1])
  if (!match || !site) return null
  const body = await images
    .get(site.id, match[2], snapshot.version, snapshot.generatedAtSec)
    .catch((error) => {
      if (!(error instanceof TooManyReadsError)) throw error
      throw new ApiError('not_ready', 'too many pictures are being read; try again')
    })
  if (body === null) return null
  const cacheControl = 'public, max-age=31536000, immutable'
  return toContent(body, { type: 'image/webp', cacheControl, hasEtag: true, headers: HEADERS })
}
