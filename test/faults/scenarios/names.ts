/** The name of Redis cannot be resolved, or names another address; its certificate has expired. */
import { makeCertificates } from '../../helpers/certificates.ts'
import { eventually } from '../../helpers/eventually.ts'
import { mountSkipReason } from '../../helpers/mounts.ts'
import { createPrivateHosts } from '../../helpers/private-hosts.ts'
import { type RedisServer, startRedis } from '../../helpers/redis.ts'
import type { RunningService } from '../../helpers/service.ts'
import { readRedis } from '../redis-faults.ts'
import { HARMLESS, type LoadScenario, type Parts, type Scenario, underLoad } from '../scenario.ts'

const NAME = 'redis.test'
const [FIRST, SECOND] = ['127.0.0.2', '127.0.0.3']
const SILENT = '192.0.2.53' // of the addresses for documentation (RFC 5737): nothing replies
const WORKERS = 2

const loseConnections = (redis: RedisServer) => redis.run('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')

const bindTo = (address: string) => ['--bind', '127.0.0.1', address] // 127.0.0.1 for this process

/** Its name is gone; with `isCut`, so are the connections. */
async function startNameless(isCut: boolean): Promise<Parts> {
  const redis = await startRedis({ args: bindTo(FIRST) })
  const hosts = createPrivateHosts()
  hosts.set({ [NAME]: FIRST })
  return {
    env: { REDIS_URL: `${NAME}:${redis.port}` },
    wrapper: hosts.wrapper,
    begin: async () => {
      hosts.set({})
      if (isCut) await loseConnections(redis)
    },
    end: () => hosts.set({ [NAME]: FIRST }),
    read: (keys) => readRedis(redis, keys),
    stop: async () => {
      await redis.stop()
      hosts.remove()
    },
  }
}

/** Its name server does not reply either, so a lookup takes as long as the system's resolver allows. */
async function startSilent(): Promise<Parts> {
  const redis = await startRedis({ args: bindTo(FIRST) })
  const hosts = createPrivateHosts(SILENT)
  hosts.set({ [NAME]: FIRST })
  const countConnected = ({ log }: RunningService) => log.split('is connected again').length - 1
  let before = 0
  return {
    env: { REDIS_URL: `${NAME}:${redis.port}` },
    wrapper: hosts.wrapper,
    begin: async ({ service }) => {
      before = countConnected(service)
      hosts.set({})
      await loseConnections(redis)
    },
    end: async ({ service }) => {
      hosts.set({ [NAME]: FIRST })
      await eventually(() => {
        if (countConnected(service) < before + WORKERS) throw new Error('Redis is not connected again')
      })
    },
    read: (keys) => readRedis(redis, keys),
    stop: async () => {
      await redis.stop()
      hosts.remove()
    },
  }
}

/** Redis is replaced by an empty one at another address of the same name. */
async function startMoving(): Promise<Parts> {
  let address = FIRST
  let redis = await startRedis({ args: bindTo(address) })
  const { port } = redis
  const hosts = createPrivateHosts()
  hosts.set({ [NAME]: address })
  return {
    env: { REDIS_URL: `${NAME}:${port}` },
    wrapper: hosts.wrapper,
    begin: () => redis.stop(),
    end: async () => {
      address = address === FIRST ? SECOND : FIRST
      redis = await startRedis({ port, args: bindTo(address) })
      hosts.set({ [NAME]: address })
    },
    read: (keys) => readRedis(redis, keys),
    stop: async () => {
      await redis.stop()
      hosts.remove()
    },
  }
}

async function startExpiring(): Promise<Parts> {
  const names = 'DNS:localhost'
  const certificates = await makeCertificates(names)
  const expired = await certificates.issue('expired', { names, days: -1 })
  const redis = await startRedis({ tls: certificates })
  const use = ({ cert, key }: { cert: string; key: string }) =>
    redis.run('CONFIG', 'SET', 'tls-cert-file', cert, 'tls-key-file', key)
  return {
    env: { REDIS_URL: `localhost:${redis.port}`, REDIS_TLS: 'true', REDIS_TLS_CACERT: certificates.ca },
    begin: async ({ service }) => {
      await use(expired)
      await loseConnections(redis)
      await service.logged('certificate has expired')
    },
    end: async () => void (await use(certificates)),
    read: (keys) => readRedis(redis, keys),
    stop: async () => {
      await redis.stop()
      await certificates.remove()
    },
  }
}

const SCENARIOS: LoadScenario[] = [
  {
    name: 'dns-gone',
    fault: 'the name of Redis cannot be resolved, its connections stay',
    promise: 'no call is degraded, every counter is exact',
    skipReason: mountSkipReason,
    ...HARMLESS,
    start: () => startNameless(false),
  },
  {
    name: 'dns-gone-connection-lost',
    fault: 'the name of Redis cannot be resolved and the connections are lost',
    promise: 'the policies answer until it can be resolved; late hits are counted at most once and flagged',
    skipReason: mountSkipReason,
    start: () => startNameless(true),
  },
  {
    name: 'dns-silent',
    fault: 'the name server of Redis does not reply, and the connections are lost',
    promise: "the policies answer until the name can be resolved and the resolver's own timeout has passed",
    skipReason: mountSkipReason,
    start: startSilent,
  },
  {
    name: 'dns-address-changed',
    fault: 'Redis is replaced by another at another address of its name',
    promise: 'the new address is used without a restart',
    losesCounts: true,
    skipReason: mountSkipReason,
    start: startMoving,
  },
  {
    name: 'certificate-expired',
    fault: 'the certificate of Redis has expired when its connections are lost, and is then replaced',
    promise:
      'the policies answer, the log names the reason; with the new certificate all hits are counted without a restart',
    start: startExpiring,
  },
]

export const scenarios: readonly Scenario[] = SCENARIOS.map(underLoad)
