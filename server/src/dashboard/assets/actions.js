// Dialogs of a transcript's page: downloads with options, the link that shows it, another transcript of the same recording.
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

/** Does what a dialog's form asks for; a refusal stands in the form. */
async function doIn(form, work) {
  const problem = find('[data-problem]', form)
  const buttons = findAll('.actions button', form)
  problem.hidden = true
  for (const button of buttons) button.disabled = true
  try {
    await work()
  } catch (error) {
    problem.textContent = error.message
    problem.hidden = false
  }
  for (const button of buttons) button.disabled = false
}

const shareForm = find('[data-share]')
if (shareForm) {
  const path = `/data/transcripts/${shareForm.dataset.share}/share`
  const show = (url, until) => {
    find('#share-link').textContent = url
    find('[data-link]', shareForm).hidden = !url
    find('[data-shared]', shareForm).hidden = find('[data-revoke]', shareForm).hidden = !until
    const time = find('[data-shared] time', shareForm)
    time.dateTime = until
    if (until) time.textContent = new Date(until).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
  }
  shareForm.addEventListener('submit', event => {
    event.preventDefault()
    doIn(shareForm, async () => {
      const made = await ask(path, { days: Number(shareForm.elements.days.value) })
      show(made.url, made.expires_at)
    })
  })
  find('[data-revoke]', shareForm).addEventListener('click', () => doIn(shareForm, async () => {
    await respond(path, {}, {}, undefined, 'DELETE')
    show('', '')
    toast(words.share_revoked)
  }))
}

const againForm = find('[data-again]')
if (againForm) {
  followModel(againForm)
  againForm.addEventListener('submit', event => {
    event.preventDefault()
    const body = JSON.parse(againForm.dataset.again)
    body.model = againForm.elements.model.value
    if (againForm.elements.language_code.value) body.language_code = againForm.elements.language_code.value
    for (const box of findAll('[type=checkbox]', againForm)) body[box.name] = box.checked
    // A field that refines an option goes with it.
    const refined = { speaker_labels: ['identify_speakers', 'speakers_expected'], pii_redaction: ['pii_policies', 'pii_substitution', 'redact_audio'] }
    for (const [name, parts] of Object.entries(refined)) if (!body[name]) for (const part of parts) delete body[part]
    doIn(againForm, async () => location.assign(`/transcripts/${(await create(body)).id}`))
  })
}
