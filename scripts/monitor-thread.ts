/** The monitor's thread: monitor/ knows no socket library, so its port is opened here. */
import { answerInspections } from '../engine/inspection/thread.ts'
import { runMonitorThread } from '../monitor/service/thread.ts'
import { openUws } from '../transports/uws.ts'

answerInspections('monitor')
await runMonitorThread(openUws)
