/** The rules of quotas, as a monitor in this environment would load them. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { toRuleTree } from '../../../engine/config/file-rules-source.ts'
import { loadRules } from '../../../engine/config/load.ts'
import type { RulesImage } from '../../../engine/config/rules.ts'
import type { Settings } from '../../../engine/settings/parse.ts'
import { DOMAIN, defaultRules, quotaRules } from '../../../monitor/api/default-rules.ts'
import { classesWithoutRule } from '../../../monitor/api/tier-rules.ts'

/** The reason why keys of this tier have no limit, or may have none; null if rules limit them. */
export async function reasonUnlimited(settings: Settings, tier: string): Promise<string | null> {
  const rules = await monitorRules(settings)
  if (typeof rules === 'string') return `cannot check whether its keys have a limit: ${rules}`
  const classes = classesWithoutRule(rules, tier)
  if (classes.length === 0) return null
  return `no rule of the domain ${DOMAIN} applies to it (${classes.join(' and ')}), so its keys have no limit.`
}

/** A string is the reason why they cannot be loaded here. */
async function monitorRules(settings: Settings): Promise<RulesImage | string> {
  if (settings.CONFIG_TYPE !== 'FILE') return 'its rules come from a management server.'
  const tree = toRuleTree(settings)
  const builtIn = await defaultRules()
  if (!existsSync(join(tree.root, tree.subdirectory, tree.appDirectory))) return builtIn
  const loaded = await loadRules({ from: 'tree', tree, isMerging: settings.MERGE_DOMAIN_CONFIG })
  return loaded.ok ? quotaRules(loaded.image, builtIn) : `its rules cannot be loaded (${loaded.error}).`
}
