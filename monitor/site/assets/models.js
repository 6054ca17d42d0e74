// Finds a model among those of a site as one types, also behind disclosures. Without JavaScript the browser's own search does.
const field = document.getElementById('find-model')
const groups = document.querySelector('.models')
const count = document.getElementById('models-found')
const counted = [...(groups?.children ?? [])].flatMap((group) => {
  const heading = group.querySelector('.group-count')
  return heading ? [{ heading, all: heading.textContent, items: [...group.querySelectorAll('li')] }] : []
})

function find() {
  const text = field.value.trim().toLowerCase()
  let found = 0
  for (const item of groups.querySelectorAll('li')) {
    item.hidden = !item.textContent.toLowerCase().includes(text)
    if (!item.hidden) found++
  }
  for (const { heading, all, items } of counted) {
    heading.textContent = text === '' ? all : String(items.filter((item) => !item.hidden).length)
  }
  for (const more of groups.querySelectorAll('details')) if (text !== '') more.open = true
  count.textContent = text === '' ? '' : count.dataset.text.replace('{n}', String(found))
}

if (field) {
  field.closest('[hidden]').hidden = false
  field.addEventListener('input', find)
}
