/** The monitor's thread: monitor/ knows no socket library, so its port is opened here. */
import { handleInspections } from '../../engine/runtime/inspection/inspected-thread.ts'
import { runMonitorThread } from '../../monitor/service/thread.ts'
import { openUws } from '../../transports/uws.ts'

handleInspections('monitor')
await runMonitorThread((host, port, addRoutes) => openUws(host, port, addRoutes, true)) // one listener: nobody shares it
