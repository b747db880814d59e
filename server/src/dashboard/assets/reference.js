// Tries an operation of the API as the person who has signed in: the same handlers, at this address, without a key.
const tryForm = find('[data-try]')
const MOST_SHOWN = 200_000

tryForm?.addEventListener('submit', async event => {
  if (event.defaultPrevented) return
  event.preventDefault()
  let path = tryForm.dataset.try
  const query = new URLSearchParams()
  const headers = { 'x-form-token': meta('form-token') }
  for (const field of findAll('[data-in]', tryForm)) {
    if (!field.value) continue
    if (field.dataset.in === 'path') path = path.replace(`{${field.name}}`, encodeURIComponent(field.value))
    else if (field.dataset.in === 'query') query.append(field.name, field.value)
    else headers[field.name] = field.value
  }
  const body = tryForm.elements.body?.value.trim() || undefined
  if (body) headers['content-type'] = 'application/json'
  const button = find('button', tryForm)
  const shown = find('[data-tried]')
  const status = find('[data-status]', shown)
  const out = find('pre', shown)
  const show = (text, good, took) => {
    shown.hidden = false
    find('audio', shown)?.remove()
    status.textContent = text
    status.className = `badge ${good ? 'completed' : 'error'}`
    find('[data-took]', shown).textContent = took
    out.hidden = false
    out.textContent = ''
  }
  button.disabled = true
  const began = performance.now()
  try {
    const address = `/try${path}${query.size ? `?${query}` : ''}`
    const response = await fetch(address, { method: tryForm.dataset.method, headers, body })
    const type = response.headers.get('content-type') ?? ''
    const answer = type.startsWith('audio/') ? await response.blob() : await response.text()
    show(`${response.status} ${response.statusText}`, response.ok, `${Math.round(performance.now() - began)} ${words.milliseconds}`)
    if (typeof answer !== 'string') {
      out.hidden = true
      shown.append(make('audio', '', { controls: '', src: URL.createObjectURL(answer) }))
      return
    }
    let text = answer
    if (type.startsWith('application/json')) text = JSON.stringify(JSON.parse(answer), null, 2)
    out.textContent = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text
    out.hidden = !text
  } catch {
    show(words.offline, false, '')
    out.hidden = true
  } finally {
    button.disabled = false
  }
})
