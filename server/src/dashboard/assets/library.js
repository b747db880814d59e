// Many transcripts at once: chosen by hand, or all that match the filter of the list.
const bulk = find('[data-bulk]')

if (bulk) {
  const pageBox = find('[data-select-page]')
  const boxes = findAll('[data-select]')
  const everything = find('[data-everything]', bulk)
  const bar = find('progress', bulk)
  const tagField = find('[name=tag]', bulk)
  const filter = JSON.parse(bulk.dataset.filter)
  let all = false

  const chosen = () => boxes.filter(box => box.checked).map(box => box.value)

  function show() {
    const count = chosen().length
    bulk.hidden = count === 0
    pageBox.checked = count === boxes.length
    pageBox.indeterminate = count > 0 && count < boxes.length
    all &&= count === boxes.length
    everything.hidden = all || count < boxes.length || bulk.dataset.more === undefined
    find('[data-chosen]', bulk).textContent = all ? words.all_chosen : `${count} ${words.chosen}`
    const search = new URLSearchParams(all ? filter : { ids: chosen() })
    for (const link of findAll('[data-export]', bulk)) {
      search.set('format', link.dataset.export)
      link.href = `/transcripts/export?${search}`
    }
  }

  /** Changes what is chosen, a part with each request. */
  async function change(action, tag) {
    const buttons = findAll('button', bulk)
    const ids = chosen()
    let done = 0
    for (const button of buttons) button.disabled = true
    bar.hidden = false
    try {
      if (!all) await ask('/data/transcripts/change', { action, tag, ids })
      for (let after = ''; all && after != null;) {
        const answer = await ask('/data/transcripts/change', { action, tag, filter, after })
        after = answer.after
        done += answer.changed
        find('[data-chosen]', bulk).textContent = `${done} ${words.changed}`
      }
      location.reload()
    } catch (error) {
      toast(error.message)
      for (const button of buttons) button.disabled = false
      bar.hidden = true
    }
  }

  for (const box of boxes) box.addEventListener('change', show)
  pageBox.addEventListener('change', () => {
    for (const box of boxes) box.checked = pageBox.checked
    show()
  })
  everything.addEventListener('click', () => { all = true; show() })
  for (const button of findAll('[data-change]', bulk)) {
    button.addEventListener('click', async () => {
      const action = button.dataset.change
      const tag = tagField.value.trim()
      if (action !== 'delete' && !tag) return tagField.focus()
      if (action === 'delete' && !await confirmed(words.delete_confirm, button.textContent.trim())) return
      change(action, action === 'delete' ? undefined : tag)
    })
  }
  tagField.addEventListener('keydown', event => {
    if (event.key === 'Enter' && !event.isComposing) find('[data-change=add_tag]', bulk).click()
  })
  // A browser that goes back keeps the boxes as they were.
  addEventListener('pageshow', show)
}
