// Copies the address of this page. Browsers offer a clipboard to https and to this machine only; elsewhere the button stays hidden.
const button = document.querySelector('[data-copied]')
if (button && navigator.clipboard) {
  button.hidden = false
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(location.href)
    } catch {
      return // refused by the visitor: the address is in the bar
    }
    button.nextElementSibling.textContent = button.dataset.copied
  })
}
