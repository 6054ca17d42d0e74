// Counts down to when a page that was refused may be asked for again, then loads it. Without JavaScript a refresh does.
const count = document.querySelector('[data-seconds]')
const endMs = performance.now() + Number(count.dataset.seconds) * 1_000
const integer = new Intl.NumberFormat(document.documentElement.lang)

const timer = setInterval(() => {
  const leftSec = Math.ceil((endMs - performance.now()) / 1_000)
  count.textContent = integer.format(Math.max(0, leftSec))
  if (leftSec > 0) return
  clearInterval(timer)
  location.replace(location.pathname + location.search) // a GET, also after a form that was sent
}, 1_000)
