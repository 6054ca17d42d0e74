/** Detections over HTTP (spec 3.4, 3.5, 4.5, 13.6): new, pending, reused, refused, waited for, restarted. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { uuidV7 } from '../../../monitor/detections/detection.ts'
import { eventually } from '../../helpers/eventually.ts'
import { NOON } from './fake-store.ts'
import { RESULT } from './golden-cases.ts'
import { type ReceivedResponse, send, startApi } from './setup.ts'

let api: Awaited<ReturnType<typeof startApi>>
beforeEach(async () => {
  api = await startApi()
})
afterEach(() => api.close())

const A = 'https://a.example.com'
const PATH = '/api/v1/detections'
const getId = ({ json }: ReceivedResponse) => (json as { id: string }).id
const getCode = ({ status, json }: ReceivedResponse) => [status, (json as { code?: string }).code]
const later = (seconds: number) => {
  api.clock.ms += seconds * 1_000
}
/** Takes the next one and finishes it. */
const run = () => api.queue.finish(api.queue.take()!.id, { result: RESULT })

describe('M13#6 3.4: a submission', () => {
  test('M3.4#3: new: 202, Location and Retry-After', async () => {
    const response = await api.submit(`${A}/v1/models?x=1#y`)
    expect(response.status).toBe(202)
    expect(response.headers).toMatchObject({
      location: `${PATH}/${getId(response)}`,
      'retry-after': '2',
      'cache-control': 'no-store',
    })
    expect(response.json).toMatchObject({
      ...{
        url: A,
        status: 'queued',
        version: 1,
        queue_position: 1,
        result: null,
        error: null,
        site_slug: null,
      },
      ...{ submitted_at: '2025-11-20T12:00:00Z', expires_at: '2025-11-27T12:00:00Z', started_at: null },
    })
    const read = await api.get(response.headers.location)
    expect([read.status, read.json]).toEqual([200, response.json])
  })

  test('M3.4#4: the same target, unfinished: 202 with the same id, for every client, however it is spelled', async () => {
    const first = getId(await api.submit(`${A}/`))
    for (const url of ['HTTPS://A.Example.COM:443/v1', `${A}/v1/?q`, 'https://a.example.com./v1/models/']) {
      const response = await api.submit(url, { from: '127.0.0.2' })
      expect([url, response.status, getId(response)]).toEqual([url, 202, first])
    }
    expect(getId(await api.submit('http://a.example.com', { from: '127.0.0.2' }))).not.toBe(first)
  })

  test('M3.4#5: finished within 600 s: 200 with the same id; later anew', async () => {
    const first = getId(await api.submit(A))
    run()
    later(599)
    const again = await api.submit(A)
    expect([again.status, getId(again), (again.json as { status: string }).status]).toEqual([
      200,
      first,
      'done',
    ])
    expect([again.headers.location, again.headers['retry-after']]).toEqual([`${PATH}/${first}`, undefined])
    later(1)
    const anew = await api.submit(A)
    expect([anew.status, getId(anew) === first]).toEqual([202, false])
  })

  // biome-ignore format: a table
  const refused: [string, string | Buffer, number, string][] = [
    ['no JSON',         '{"url":',                            400, 'invalid_request'],
    ['a byte order mark', '\ufeff{"url":"https://a.b.com"}',  400, 'invalid_request'],
    ['no UTF-8',        Buffer.from([0x22, 0xff, 0x22]),      400, 'invalid_request'],
    ['no body',         '',                                   400, 'invalid_request'],
    ['a list',          '["https://a.example.com"]',          400, 'invalid_request'],
    ['null',            'null',                               400, 'invalid_request'],
    ['a wrong type',    '{"url":7}',                          400, 'invalid_request'],
    ['one member more', '{"url":"https://a.example.com","api_key":"sk-12345678"}', 400, 'invalid_request'],
    ['__proto__',       '{"url":"https://a.example.com","__proto__":1}', 400, 'invalid_request'],
    ['no url',          '{}',                                 400, 'invalid_url'],
    ['an empty url',    '{"url":""}',                         400, 'invalid_url'],
    ['a relative url',  '{"url":"/x"}',                       400, 'invalid_url'],
    ['another scheme',  '{"url":"ftp://a.example.com"}',      400, 'invalid_url'],
    ['user info',       '{"url":"https://u:p@a.example.com"}', 400, 'invalid_url'],
    ['port 0',          '{"url":"https://a.example.com:0"}',  400, 'invalid_url'],
    ['2,049 characters', JSON.stringify({ url: `${A}/${'x'.repeat(2_027)}` }), 400, 'invalid_url'],
    ['another port',    '{"url":"https://a.example.com:22"}', 422, 'target_not_allowed'],
    ['loopback',        '{"url":"http://2130706433/"}',       422, 'target_not_allowed'],
    ['a private name',  '{"url":"http://printer.lan/"}',      422, 'target_not_allowed'],
    ['ourselves',       '{"url":"https://monitor.example.org"}', 422, 'target_not_allowed'],
    ['an opt-out',      '{"url":"https://x.private.example.com"}', 422, 'target_not_allowed'],
  ]
  for (const [what, body, status, code] of refused) {
    test(`M3.4#1: ${what} is ${status} ${code}`, async () => {
      const headers = { 'content-type': 'application/json; charset=UTF-8' }
      const response = await api.request('POST', PATH, { body, headers })
      expect(getCode(response)).toEqual([status, code])
      expect(JSON.stringify(response.json)).not.toMatch(/127\.0\.0|reserved|\.ts/)
    })
  }

  test('3.4: 2,048 characters and 4,096 bytes are accepted', async () => {
    const url = `${A}/${'x'.repeat(2_026)}`
    expect(url.length).toBe(2_048)
    const body = JSON.stringify({ url }).padEnd(4_096)
    expect(
      (await api.request('POST', PATH, { body, headers: { 'content-type': 'application/json' } })).status,
    ).toBe(202)
    expect(
      getCode(
        await api.request('POST', PATH, {
          body: `${body} `,
          headers: { 'content-type': 'application/json' },
        }),
      ),
    ).toEqual([413, 'payload_too_large'])
  })

  for (const type of ['', 'text/plain', 'application/jsonp', 'application/json; charset=latin1']) {
    test(`1.2: media type "${type}" is 415`, async () => {
      const response = await api.request('POST', PATH, {
        body: '{}',
        headers: type ? { 'content-type': type } : {},
      })
      expect([...getCode(response), response.headers['accept-post']]).toEqual([
        415,
        'unsupported_media_type',
        'application/json',
      ])
    })
  }
})

describe('M13#6 4.5: bounds', () => {
  test('M4.5#1: two unfinished per client, joining others is free', async () => {
    await api.submit('https://a1.example.com')
    await api.submit('https://a2.example.com')
    const third = await api.submit('https://a3.example.com')
    expect([...getCode(third), third.headers['retry-after']]).toEqual([429, 'too_many_pending', '5'])
    expect((await api.submit('https://a1.example.com')).status).toBe(202)
    expect((await api.submit('https://a3.example.com', { from: '127.0.0.2' })).status).toBe(202)
    run()
    expect((await api.submit('https://a4.example.com')).status).toBe(202)
  })

  test('M4.5#2: a full queue is 503', async () => {
    api.close()
    api = await startApi({ queueMax: 2 })
    for (const [i, from] of ['127.0.0.2', '127.0.0.3'].entries())
      await api.submit(`https://b${i}.example.com`, { from })
    const response = await api.submit('https://b9.example.com')
    expect([...getCode(response), response.headers['retry-after']]).toEqual([503, 'queue_full', '30'])
    api.queue.take()
    expect((await api.submit('https://b9.example.com')).status).toBe(202)
  })

  test('M4.5#4: a host once a minute: another path is 429, the same target its last result', async () => {
    api.close()
    api = await startApi({ reuseSec: 10 })
    const first = getId(await api.submit(A))
    run()
    later(20)
    const other = await api.submit(`${A}/other`)
    expect([...getCode(other), other.headers['retry-after']]).toEqual([429, 'target_cooldown', '40'])
    const same = await api.submit(A)
    expect([same.status, getId(same)]).toEqual([200, first])
    later(40)
    expect((await api.submit(A)).status).toBe(202)
  })

  test('M4.5#4: a host 12 times a day, then its last result until the next day', async () => {
    const ids = new Set<string>()
    for (let i = 0; i < 13; i++) {
      ids.add(getId(await api.submit(A, { from: `127.0.0.${10 + i}` })))
      if (api.queue.take() !== null) api.queue.finish([...ids].at(-1)!, { result: RESULT })
      later(600)
    }
    expect(ids.size).toBe(12)
    const other = await api.submit(`${A}/other`)
    expect([...getCode(other), other.headers['retry-after']]).toEqual([
      429,
      'target_cooldown',
      String(12 * 3_600 - 13 * 600),
    ])
    api.clock.ms = (NOON + 12 * 3_600) * 1_000
    expect((await api.submit(A)).status).toBe(202)
  })

  test('M4.5#5: a registrable domain 60 times a day, for all hosts below it together', async () => {
    const submit = (host: number) =>
      api.submit(`https://h${host}.wild.io/`, { from: `127.0.1.${1 + (host % 200)}` })
    for (let host = 0; host < 60; host++) {
      const response = await submit(host)
      expect(response.status).toBe(202)
      api.queue.take()
      api.queue.finish(getId(response), { result: RESULT })
    }
    expect(getCode(await submit(60))).toEqual([429, 'target_cooldown'])
    api.clock.ms = (NOON + 12 * 3_600) * 1_000
    expect((await submit(61)).status).toBe(202)
  })

  test('a clock that was set back lengthens no wait and resets no count', async () => {
    const first = getId(await api.submit(A))
    run()
    later(-86_400)
    const other = await api.submit(`${A}/other`)
    expect([...getCode(other), other.headers['retry-after']]).toEqual([429, 'target_cooldown', '60'])
    const same = await api.submit(A)
    expect([same.status, getId(same)]).toEqual([200, first]) // there is a result, and the host is cooling down
  })

  test('detections that are switched off are 503', async () => {
    api.close()
    api = await startApi({ hasDetections: false })
    expect(getCode(await api.submit(A))).toEqual([503, 'detections_disabled'])
  })

  test('M4.5#7: 120 s in the queue, 45 s of running, then it has failed', async () => {
    const waits = getId(await api.submit('https://c1.example.com'))
    later(119)
    const runs = getId(await api.submit('https://c2.example.com'))
    api.queue.take() // the first
    api.queue.tick()
    later(45)
    api.queue.tick()
    expect((await api.get(`${PATH}/${waits}`)).json).toMatchObject({
      status: 'failed',
      error: { code: 'deadline_exceeded' },
    })
    later(120 - 45)
    api.queue.tick()
    expect((await api.get(`${PATH}/${runs}`)).json).toMatchObject({
      status: 'failed',
      error: { code: 'queue_timeout' },
    })
    expect(api.queue.progress(runs, [])).toBe(false)
  })
})

describe('3.5: reading', () => {
  test('queued, running, done; each with a higher version', async () => {
    const id = getId(await api.submit('https://alpha.example.com'))
    const read = async () => (await api.get(`${PATH}/${id}`)).json
    later(3)
    const { steps } = api.queue.take()!
    expect(await read()).toMatchObject({
      ...{
        status: 'running',
        version: 2,
        queue_position: null,
        started_at: '2025-11-20T12:00:03Z',
        site_slug: 'alpha',
      },
    })
    api.queue.progress(id, [{ ...steps[0], status: 'ok', ms: 12, detail: '2 addresses' }, ...steps.slice(1)])
    api.queue.finish(id, { result: RESULT })
    const done = await api.get(`${PATH}/${id}`)
    expect(done.json).toMatchObject({
      status: 'done',
      version: 4,
      result: RESULT,
      steps: [{ ms: 12 }, {}, {}, {}, {}, {}, {}, {}],
    })
    expect(done.headers['retry-after']).toBeUndefined()
  })

  test('M4.5#10: an id that is malformed, unknown or expired', async () => {
    const id = getId(await api.submit(A))
    expect(getCode(await api.get(`${PATH}/${id.toUpperCase()}`))).toEqual([404, 'detection_not_found'])
    expect(getCode(await api.get(`${PATH}/${uuidV7(NOON * 1_000)}`))).toEqual([404, 'detection_not_found'])
    later(7 * 86_400 - 1)
    expect((await api.get(`${PATH}/${id}`)).status).toBe(200)
    later(1)
    expect(getCode(await api.get(`${PATH}/${id}`))).toEqual([410, 'detection_expired'])
  })

  // biome-ignore format: a table
  const bounds = [
    ['wait=0', 200], ['wait=25', 200], ['wait=26', 400], ['wait=-1', 400], ['wait=', 400],
    ['since=0', 200], ['since=999999999', 200], ['since=1e3', 400],
  ] as const
  test('13.2: bounds of wait and since', async () => {
    const id = getId(await api.submit(A))
    run()
    for (const [query, status] of bounds) {
      expect([query, (await api.get(`${PATH}/${id}?${query}`)).status]).toEqual([query, status])
    }
  })
})

describe('3.5: the long poll', () => {
  const held = async (count: number) => {
    await eventually(() => expect(api.queue.waiting.count).toBe(count))
  }

  test('wakes with news, beyond `since`', async () => {
    const id = getId(await api.submit(A))
    const asking = api.get(`${PATH}/${id}?wait=25`)
    const patient = api.get(`${PATH}/${id}?wait=25&since=2`)
    await held(2)
    const { steps } = api.queue.take()!
    expect((await asking).json).toMatchObject({ status: 'running', version: 2 })
    await held(1) // the patient one sleeps on
    api.queue.progress(id, steps)
    expect((await patient).json).toMatchObject({ version: 3 })
    expect((await api.get(`${PATH}/${id}?wait=25&since=2`)).json).toMatchObject({ version: 3 }) // news already
  })

  test('ends when the time is up', async () => {
    const id = getId(await api.submit(A))
    const startMs = performance.now()
    expect((await api.get(`${PATH}/${id}?wait=1`)).json).toMatchObject({ version: 1 })
    expect(performance.now() - startMs).toBeGreaterThan(950)
  })

  test('M4.5#8: the third of a client gets its response at once, others are held', async () => {
    const id = getId(await api.submit(A))
    const first = [1, 2].map(() => api.get(`${PATH}/${id}?wait=25`))
    await held(2)
    expect((await api.get(`${PATH}/${id}?wait=25`)).json).toMatchObject({ version: 1 })
    const other = api.get(`${PATH}/${id}?wait=25`, { from: '127.0.0.2' })
    await held(3)
    api.queue.take()
    for (const response of await Promise.all([...first, other]))
      expect(response.json).toMatchObject({ version: 2 })
  })

  test('a disconnected client is removed, and a shutdown ends held requests', async () => {
    const id = getId(await api.submit(A))
    const gone = new AbortController()
    const lost = fetch(`http://127.0.0.1:${api.port}${PATH}/${id}?wait=25`, { signal: gone.signal })
    await held(1)
    gone.abort()
    await lost.catch(() => {})
    await held(0)
    expect(api.lines.at(-1)).toMatchObject({ status: 0, route: `${PATH}/{id}` })
    const waiting = send(api.port, 'GET', `${PATH}/${id}?wait=25`, {})
    await held(1)
    await api.api.drain(1_000)
    expect((await waiting).status).toBe(200)
  })
})

test('3.5: a restart finds the queue again, and finished ones are still reused', async () => {
  const queued = getId(await api.submit('https://d1.example.com'))
  const done = getId(await api.submit('https://d2.example.com'))
  api.queue.take()
  api.queue.finish(queued, { result: RESULT })
  const rows = [...api.store.detections.values()]
  const restarted = await startApi()
  for (const row of rows) restarted.store.detections.set(row.id, row)
  restarted.queue.restore(rows.filter(({ status }) => status === 'queued'))
  expect((await restarted.get(`${PATH}/${done}`)).json).toMatchObject({ status: 'queued', queue_position: 1 })
  expect((await restarted.get(`${PATH}/${queued}`)).json).toMatchObject({ status: 'done', result: RESULT })
  expect(getId(await restarted.submit('https://d1.example.com'))).toBe(queued)
  expect(restarted.queue.take()?.id).toBe(done)
  restarted.close()
})

test('4.5: a row names no client', async () => {
  await api.submit(A)
  const [row] = api.store.detections.values()
  expect(row.clientHash).toMatch(/^[0-9a-f]{32}$/)
  expect(JSON.stringify(row)).not.toContain('127.0.0.1')
})
