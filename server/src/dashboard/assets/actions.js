// Dialogs of a transcript's page: downloads with options.
for (const button of findAll('[data-opens]')) {
  button.addEventListener('click', () => {
    for (const menu of findAll('details.drop-down[open]')) menu.open = false
    find(button.dataset.opens).showModal()
  })
}
for (const button of findAll('dialog [data-closes]')) button.addEventListener('click', () => button.closest('dialog').close())
find('[data-print]')?.addEventListener('click', () => print())

const downloadForm = find('[data-download]')
if (downloadForm) {
  const format = find('[data-format]', downloadForm)
  const follow = () => {
    for (const part of findAll('[data-of]', downloadForm)) {
      part.hidden = !part.dataset.of.split(' ').includes(format.value)
      for (const field of findAll('input, select', part)) field.disabled = part.hidden
    }
    downloadForm.action = downloadForm.dataset.download + format.value
  }
  format.addEventListener('change', follow)
  downloadForm.addEventListener('submit', () => downloadForm.closest('dialog').close())
  follow()
}
