/** Simplified Chinese texts of the methodology and of the page about the probe. */
import type { Messages } from './en.ts'

export const method: Messages['method'] = {
  lead: '只用测量数据。付费、赞助或自报内容一律不计入得分。',
  weights: '得分',
  weightsText: (formula) =>
    `公式 ${formula}，0 至 100 分。每个组成按 0 至 1 乘以权重。无法测量的组成不计入，其余按比例放大。`,
  component: '组成',
  weight: '权重',
  how: '计算方法',
  components: {
    availability:
      '24 小时、7 天、30 天探测，权重 0.2、0.5、0.3：90% 为零分，97% 为一半，99% 为四分之三，99.9% 为满分。',
    models: '站点声称的模型中，其自身列表包含的比例。',
    latency: '7 天首字节时间：中位数（60%）300 ms 至 3 s，95 百分位（40%）1 s 至 8 s，对数刻度。',
    reachability: '已测量地区中可达的比例。',
    hygiene: '证书、跳转到 https、TLS 1.3、HSTS、错误信息不泄露上游。',
  },
  tiers: '等级',
  tiersText:
    '92 分起为 S，80 分起为 A，65 分起为 B，45 分起为 C，其余为 D。得分越过界线 1.0 分，或持续 24 小时（上升）、6 小时（下降），等级才会改变。',
  caps: '等级上限',
  capsText: '以下事实无论得分多少都限制等级：',
  regions: '地区',
  regionsText: [
    '最近 3 次结果中有 2 次正常，该观测点即认为站点正常。至少一半观测点正常，该地区即为可达；状态改变须测得两次。',
    '最后一个观测点离线后，状态保留 24 小时。「未测量」表示没有结果，绝不等于「被阻断」。',
    '一个地区的阻断类型以另一地区为对照判断，且始终称为「疑似」。',
  ],
  boards: '红黑榜',
  boardsText: [
    '推荐（红榜）：S、A 或 B 级，历史不少于 7 天，7 天可用率不低于 97%，无进行中的事件；按得分减去 8 / √（历史天数）排序。',
    '警示（黑榜）：至少有一项警示的站点，按警示的严重程度排序，均附证据链接。',
  ],
  certainty: '有多确定',
  certaintyText: [
    '每个观测点只测量一条网络路径。数字都写明所依据的探测次数与观测点数；次数少时说明不了什么。',
    '列表中有某个模型，不证明该模型可用。不带密钥的探测只看到匿名访客所见。',
  ],
  mistakes: '错误与申诉',
  mistakesText: (email) => `请将站点、数字与时间发至 ${email}，我们会人工核查。`,
  scoreJson: '单个站点的得分明细见 /api/v1/sites/{slug}/score。',
  probe: {
    lead: '请求很少，无密钥，无 cookie，可以退出。',
    userAgent: 'User-Agent',
    light: (intervalSec, hours) =>
      `每个观测点每 ${intervalSec} 秒向收录站点发送一次 GET /v1/models，失败时重复几次；每 ${hours} 小时一次完整探测，最多 6 个请求：首页、模型列表、已知程序的状态与价目表。持续故障的站点探测会减少，最低每 6 小时一次。`,
    rules:
      '只用 GET 与 HEAD，无 cookie，无 referrer；最多跟随 3 次重定向。仅当本监测运营方持有该站点的密钥时才发送密钥。',
    detection: '对提交到本监测的每个网址：一次完整探测。',
    sent: '发送的内容',
    out: '退出收录',
    outText: (email) => `请写信至 ${email}。此后你的域名及其子域名不再被探测和收录，提交也会被拒绝。`,
    outNoContact: '请写信给本监测的运营方。此后你的域名及其子域名不再被探测和收录，提交也会被拒绝。',
  },
}
