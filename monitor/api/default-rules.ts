/**
 * The built-in quotas, used while no rule file has the monitor's domain (spec 4.1): a rule file in memory.
 *
 *     engine.setRules(quotaRules(loaded, await defaultRules()))     with each load
 */
import { loadRules } from '../../engine/config/load.ts'
import type { RulesImage } from '../../engine/config/rules.ts'
import { Trie } from '../../engine/match/trie.ts'
import { PUBLIC_DOMAIN } from '../../engine/stores/memory/table-layout.ts'

export const DOMAIN = PUBLIC_DOMAIN

export const DEFAULT_RULES = `domain: ${DOMAIN}
descriptors:
  - key: class
    value: read
    descriptors:
      - key: ip
        rate_limit: { unit: minute, requests_per_unit: 120 }
  - key: class
    value: submit
    descriptors:
      - key: ip
        rate_limit: { unit: hour, requests_per_unit: 20 }
  - key: class
    value: page
    descriptors:
      - key: ip
        rate_limit: { unit: minute, requests_per_unit: 240 }
  - key: class
    value: key_read
    descriptors:
      - key: tier
        value: partner
        descriptors:
          - key: key
            rate_limit: { unit: minute, requests_per_unit: 1200 }
  - key: class
    value: key_submit
    descriptors:
      - key: tier
        value: partner
        descriptors:
          - key: key
            rate_limit: { unit: hour, requests_per_unit: 300 }
`

export async function defaultRules(): Promise<RulesImage> {
  const file = { name: 'relay_monitor.yaml', bytes: Buffer.from(DEFAULT_RULES) }
  const loaded = await loadRules({ from: 'files', files: [file], isMerging: false })
  if (!loaded.ok) throw new Error(`the built-in rules do not load: ${loaded.error}`)
  return loaded.image
}

/** The operator's rules if they have the domain, else the built-in ones. */
export function quotaRules(loaded: RulesImage | null, builtIn: RulesImage): RulesImage {
  return loaded !== null && new Trie(loaded).domain(DOMAIN) >= 0 ? loaded : builtIn
}
