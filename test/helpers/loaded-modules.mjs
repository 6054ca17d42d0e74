/**
 * Preloaded into a service under test: writes down each module that any of its threads loads.
 *
 *     NODE_OPTIONS='--import=…/loaded-modules.mjs' SLUICE_LOADED_FILE=/tmp/x      one URL per line
 */
import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

registerHooks({
  load(url, context, next) {
    appendFileSync(process.env.SLUICE_LOADED_FILE, `${url}\n`)
    return next(url, context)
  },
})
