/** Piscina task: loads the catalogue off the thread that answers requests. */
import { loadCatalogue } from './load.ts'

export default loadCatalogue
