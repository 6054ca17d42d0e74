/** A site whose models are worth `value` of their component. */
import type { SiteFacts } from '../../../../monitor/api/site-facts.ts'
import type { SiteState } from '../../../../monitor/storage/snapshot.ts'

/** `value` of the component: null = the site's own list could not be read. */
export function withModels(state: SiteState, value: number | null, more: Partial<SiteFacts> = {}): SiteState {
  const facts = state.facts as SiteFacts
  const components = facts.components.map((each) =>
    each.key === 'models' ? { ...each, value, inputs: { truthRatio: value } } : each,
  )
  return { ...state, facts: { ...facts, ...more, components } }
}
