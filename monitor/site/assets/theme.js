// The theme: system, light or dark. Loaded in the head, blocking and small, so that a page is never drawn in the wrong one.
const root = document.documentElement
const THEMES = ['system', 'light', 'dark']

function readTheme() {
  try {
    const stored = localStorage.getItem('theme')
    return THEMES.includes(stored) ? stored : 'system'
  } catch {
    return 'system' // storage is blocked
  }
}

function applyTheme(theme) {
  if (theme === 'system') root.removeAttribute('data-theme')
  else root.setAttribute('data-theme', theme)
  for (const button of document.querySelectorAll('[data-set-theme]')) {
    button.setAttribute('aria-pressed', String(button.dataset.setTheme === theme))
  }
}

root.classList.add('js')
applyTheme(readTheme())

addEventListener('DOMContentLoaded', () => {
  applyTheme(readTheme())
  for (const button of document.querySelectorAll('[data-set-theme]')) {
    button.addEventListener('click', () => {
      const theme = button.dataset.setTheme
      try {
        localStorage.setItem('theme', theme)
      } catch {
        // the choice holds for this page
      }
      applyTheme(theme)
    })
  }
  for (const time of document.querySelectorAll('time[datetime*="T"]')) {
    time.title = new Date(time.dateTime).toLocaleString(root.lang, { dateStyle: 'medium', timeStyle: 'long' })
  }
})
