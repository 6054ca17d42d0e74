/** Enumerations that several resources use, each a component, so that generated clients have one type for each. */
import { STEPS } from '../../detections/detection.ts'
import { TIERS } from '../../scoring/tier.ts'
import { CODE_KINDS, listCodes } from '../codes.ts'
import { choice, openChoice } from './build.ts'
import type { Components } from './json-schema.ts'

export const STATUSES = ['up', 'degraded', 'down'] as const
const REGION_STATES = ['reachable', 'unreachable', 'unknown'] as const
export const BOARDS = ['red', 'black'] as const

export const ENUMERATIONS: Components = {
  Tier: choice(
    'Tier of a site, S is the best. Why a site has it is at `/api/v1/sites/{slug}/score`.',
    TIERS,
    'A',
  ),
  Status: choice(
    'Result of probes: `up`, `degraded` (answered slowly, or refused the probe by a challenge or status 429) or `down`. Of several probes: `up` from an availability of 0.98, `down` below 0.5.',
    STATUSES,
  ),
  Reachability: choice(
    'Whether the vantages of a region reach the site. `unknown`: not measured, which is not the same as unreachable.',
    REGION_STATES,
  ),
  Board: choice('`red` lists the best sites, `black` those to be warned of.', BOARDS),
  DetectionStatus: choice(
    'State of a detection. `done`: the target was measured, possibly as unreachable; `failed`: it was not measured.',
    ['queued', 'running', 'done', 'failed'],
    'done',
  ),
  DetectionStepName: choice('Name of a step; steps run in this order.', STEPS),
  DetectionStepStatus: choice(
    'State of a step. `warn`: done, with something to look at; `skipped`: not needed, or not possible after an earlier step.',
    ['pending', 'running', 'ok', 'warn', 'error', 'skipped'],
    'ok',
  ),
  Verdict: choice('What the target was found to be; codes of kind `verdict`.', listCodes('verdict')),
  ListingAuth: choice(
    'Whether the listing of models is readable without a key, asks for one, or does not exist.',
    ['open', 'key_required', 'absent'],
    'key_required',
  ),
  Blocking: choice(
    'How the site seems to be blocked in a region; codes of kind `blocking`.',
    listCodes('blocking'),
  ),
  ChangeKind: choice(
    'Kind of change. All but `fixed` are announced at least 14 days before they take effect.',
    ['added', 'changed', 'deprecated', 'removed', 'fixed'],
  ),
  CodeKind: openChoice('Where the code appears.', CODE_KINDS),
  ErrorCode: openChoice(
    'Code of the error, stable within v1; codes of kind `error`. More may be added: treat an unknown one by its HTTP status.',
    listCodes('error'),
  ),
  DetectionErrorCode: openChoice(
    'Why a target was not measured; codes of kind `detection_error`. More may be added.',
    listCodes('detection_error'),
  ),
  ProbeErrorCode: openChoice(
    'Why a probe was not `up`; codes of kind `probe_error`. More may be added.',
    listCodes('probe_error'),
    'http_5xx',
  ),
  CapCode: openChoice(
    'Why a tier has an upper limit; codes of kind `cap`. More may be added.',
    listCodes('cap'),
  ),
  BoardReason: openChoice(
    'Why a site is on a board: codes of kind `red_reason` on the red board, of kind `black_reason` on the black one. More may be added.',
    [...listCodes('red_reason'), ...listCodes('black_reason')],
  ),
  Notice: openChoice(
    'Something about a probed target that users should know; codes of kind `notice`. More may be added.',
    listCodes('notice'),
    'single_vantage',
  ),
  ScoreComponentKey: openChoice(
    'Part of the score; codes of kind `component`. More may be added.',
    listCodes('component'),
  ),
  QuotaClass: openChoice(
    'What a quota counts; codes of kind `quota_class`. More may be added.',
    listCodes('quota_class'),
  ),
}
