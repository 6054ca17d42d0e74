// Follows a detection by long polls of the public API, and loads the page anew when it starts or ends.
const holder = document.getElementById('detection')
const words = holder && JSON.parse(holder.dataset.words)
const id = location.pathname.split('/').pop()
const WAIT_SEC = 20
const RETRY_SEC = 3
const RETRIES_MAX = 20 // then the page stays as it is; it can be loaded anew
const DONE = ['ok', 'warn', 'error', 'skipped']

async function follow(shown) {
  let failures = 0
  let version = shown.version
  while (failures < RETRIES_MAX) {
    let waitSec = RETRY_SEC
    try {
      const response = await fetch(`/api/v1/detections/${id}?wait=${WAIT_SEC}&since=${version}`)
      if (response.status === 404 || response.status === 410) return location.reload()
      waitSec = Number(response.headers.get('Retry-After')) || RETRY_SEC
      if (!response.ok) throw new Error(String(response.status))
      const detection = await response.json()
      if (detection.status !== shown.status) return location.reload()
      version = detection.version
      failures = 0
      show(detection.steps)
    } catch {
      failures++
      await new Promise((resolve) => setTimeout(resolve, waitSec * 1_000))
    }
  }
}

function show(steps) {
  const done = steps.filter(({ status }) => DONE.includes(status)).length
  const progress = document.querySelector('progress')
  if (progress) progress.value = done
  const current = steps[Math.min(done, steps.length - 1)].name
  const text = document.getElementById('step')
  if (text) text.textContent = words.steps[current]
  for (const { name, status, ms } of steps) {
    const row = document.querySelector(`[data-step="${name}"]`)
    if (!row) continue
    const [glyph, state] = words.states[status]
    row.className = `step step-${status}`
    row.querySelector('use').setAttribute('href', `#glyph-${glyph}`)
    row.querySelector('.glyph').classList.toggle('spin', status === 'running')
    const isShown = ms === null && !DONE.includes(status)
    row.querySelector('.visually-hidden').textContent = isShown ? '' : state // said once
    row.querySelector('.duration').textContent = isShown ? state : ms === null ? '' : `${ms} ms`
  }
}

if (holder) follow({ version: Number(holder.dataset.version), status: holder.dataset.status })
