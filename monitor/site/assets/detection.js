// Follows a running detection by long polls of the public API, and loads the page anew when it has ended.
const id = location.pathname.split('/').pop()
const holder = document.getElementById('detection')
const WAIT_SEC = 20
const RETRY_MS = 3_000
const DONE = ['ok', 'warn', 'error', 'skipped']

async function follow(version) {
  for (;;) {
    let detection
    try {
      const response = await fetch(`/api/v1/detections/${id}?wait=${WAIT_SEC}&since=${version}`)
      if (!response.ok) throw new Error(String(response.status))
      detection = await response.json()
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS)) // the API is busy, or the network is away
      continue
    }
    if (detection.status === 'done' || detection.status === 'failed') {
      location.reload()
      return
    }
    version = detection.version
    const progress = document.querySelector('progress')
    if (progress) progress.value = detection.steps.filter(({ status }) => DONE.includes(status)).length
    for (const { name, status, ms } of detection.steps) {
      const row = document.querySelector(`[data-step="${name}"]`)
      if (!row) continue
      row.className = `step step-${status}`
      if (ms !== null) row.querySelector('.duration').textContent = `${ms} ms`
    }
  }
}

if (id && holder) follow(Number(holder.dataset.version))
