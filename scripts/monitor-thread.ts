/** The monitor's thread: monitor/ knows no socket library, so its port is opened here. */
import { runMonitorThread } from '../monitor/service/thread.ts'
import { openUws } from '../transports/uws.ts'

await runMonitorThread(openUws)
