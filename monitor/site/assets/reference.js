// Sends the forms of the reference to the public API and shows the response in place. Without it they open the response as JSON.
const BODY_CHARS_MAX = 20_000 // of a response; more is left out
const SHOWN_HEADERS = [
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'Retry-After',
  'ETag',
]
const running = new WeakMap() // form → what aborts its request

/** The address that a form asks for: fields of the path filled in, empty fields left out. */
function toAddress(form) {
  const query = new URLSearchParams()
  let path = form.dataset.path
  for (const [name, value] of new FormData(form)) {
    if (path.includes(`{${name}}`)) path = path.replace(`{${name}}`, () => encodeURIComponent(value || '-'))
    else if (value !== '') query.set(name, value)
  }
  return query.size === 0 ? path : `${path}?${query}`
}

function indent(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 1)
  } catch {
    return text
  }
}

async function send(form) {
  running.get(form)?.abort()
  const current = new AbortController()
  running.set(form, current)
  const words = JSON.parse(form.dataset.words)
  const answer = form.querySelector('.answer')
  const [line, body] = [answer.querySelector('p'), answer.querySelector('pre')]
  const address = toAddress(form)
  const curl = document.querySelector(`[data-curl="${form.dataset.try}"]`)
  curl.textContent = `curl -s '${new URL(address, location.href).href.replaceAll("'", '%27')}'`
  answer.hidden = false
  line.textContent = words.sending
  body.textContent = ''
  try {
    const response = await fetch(address, { signal: current.signal })
    const text = indent(await response.text())
    const headers = SHOWN_HEADERS.map((name) => [name, response.headers.get(name)])
    const shown = headers.filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${value}`)
    line.textContent = `${response.status} ${response.statusText}`
    const rest = text.length > BODY_CHARS_MAX ? `\n… (${words.shortened})` : ''
    body.textContent = `${shown.join('\n')}\n\n${text.slice(0, BODY_CHARS_MAX)}${rest}`
  } catch (error) {
    if (error.name !== 'AbortError') line.textContent = words.failed
  }
}

for (const form of document.querySelectorAll('form[data-try]')) {
  form.querySelector('.no-script').hidden = true
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    send(form)
  })
}

// Without PUBLIC_BASE_URL the lines for curl have no host.
for (const line of document.querySelectorAll('[data-curl]'))
  line.textContent = line.textContent.replace(" '/api/", ` '${location.origin}/api/`)

// A link to a schema opens it.
function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1))
  if (target instanceof HTMLDetailsElement) target.open = true
}
addEventListener('hashchange', openTarget)
openTarget()
