// Used by all pages: words, requests, times in the reader's zone, copying, questions.
const meta = name => document.querySelector(`meta[name="${name}"]`)?.content ?? ''
const words = JSON.parse(meta('words') || '{}')
const find = (selector, within = document) => within.querySelector(selector)
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)]

/** An element with text and attributes. Data becomes text alone, never markup. */
function make(tag, text = '', attributes = {}) {
  const element = document.createElement(tag)
  element.textContent = text
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  return element
}

/** Minutes and seconds of milliseconds. */
function clockOf(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  const two = number => String(number).padStart(2, '0')
  const hours = Math.floor(seconds / 3600)
  const minutes = Math.floor(seconds / 60) % 60
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`
}

let toastTimer
function toast(text) {
  const box = find('#toast')
  box.textContent = text
  box.classList.add('shown')
  clearTimeout(toastTimer)
  toastTimer = setTimeout(() => box.classList.remove('shown'), 4000)
}

/** Sends a request to the service. An error has the service's own message. */
async function respond(path, body, headers = {}, signal = undefined, method = 'POST') {
  const options = body === undefined ? { signal } : {
    method,
    headers: { 'content-type': 'application/json', 'x-form-token': meta('form-token'), ...headers },
    body: JSON.stringify(body),
    signal,
  }
  let response
  try {
    response = await fetch(path, options)
  } catch {
    throw Object.assign(new Error(words.offline), { offline: true })
  }
  if (response.ok) return response
  const answer = await response.json().catch(() => null)
  const message = response.status === 401 ? words.signed_out : answer?.error?.message ?? words.failed
  throw Object.assign(new Error(message), { status: response.status })
}

/** Asks the service for an answer in JSON. */
async function ask(path, body, headers) {
  const response = await respond(path, body, headers)
  return response.status === 204 ? null : response.json().catch(() => null)
}

/** The events of a streamed answer as they come, but for its last mark. */
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let text = ''; ;) {
    const { done, value } = await reader.read().catch(() => { throw new Error(words.answer_lost) })
    if (done) return
    const events = (text + value).split('\n\n')
    text = events.pop()
    for (const event of events) if (event.startsWith('data: {')) yield JSON.parse(event.slice(6))
  }
}

const wait = ms => new Promise(done => setTimeout(done, ms))

/** Waits so long, and then until the page is seen. */
async function waitSeen(ms) {
  await wait(ms)
  while (document.hidden) await new Promise(done => document.addEventListener('visibilitychange', done, { once: true }))
}

/** True for an error that passes by itself: the service is away or busy. */
const passes = error => error.offline || error.status >= 500 || error.status === 429

// Times in the reader's zone.
function ago(date) {
  const format = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: 'auto' })
  const seconds = (date - Date.now()) / 1000
  for (const [unit, size] of [['day', 86400], ['hour', 3600], ['minute', 60]]) {
    if (Math.abs(seconds) >= size) return format.format(Math.round(seconds / size), unit)
  }
  return format.format(0, 'minute')
}
for (const element of findAll('time')) {
  const date = new Date(element.dateTime)
  const exact = date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
  element.textContent = 'ago' in element.dataset ? ago(date) : exact
  element.title = exact
}

// Buttons that copy the text of another element.
for (const button of findAll('[data-copy]')) {
  button.addEventListener('click', async () => {
    const source = find(button.dataset.copy)
    try {
      await navigator.clipboard.writeText(source.textContent)
      toast(words.copied)
    } catch {
      getSelection().selectAllChildren(source)
      toast(words.copy_failed)
    }
  })
}

/** Opens a dialog with a form. Resolves to the value of the button that closes it; to an empty one if it is dismissed, where it may be. */
function openDialog(title, parts, answers, mayDismiss = true) {
  const dialog = make('dialog', '', { class: 'question', 'aria-labelledby': 'dialog-title' })
  const form = make('form', '', { method: 'dialog', class: 'stack' })
  const buttons = make('div', '', { class: 'actions' })
  if (mayDismiss) buttons.append(make('button', words.cancel, { value: '' }))
  for (const [value, text, look] of answers) buttons.append(make('button', text, { value, class: look ?? '' }))
  form.append(make('h2', title, { id: 'dialog-title' }), ...parts, buttons)
  dialog.append(form)
  document.body.append(dialog)
  dialog.addEventListener('cancel', event => { if (!mayDismiss) event.preventDefault() })
  const closed = new Promise(done => dialog.addEventListener('close', () => { dialog.remove(); done(dialog.returnValue) }))
  dialog.showModal()
  return closed
}

/** Asks a question in a dialog of the page. True if the reader agrees; with `field`, the attributes of one, what was written there. */
async function confirmed(question, action, field) {
  const input = field && make('input', '', { 'aria-labelledby': 'dialog-title', ...field })
  input?.addEventListener('keydown', event => {
    if (event.key !== 'Enter' || event.isComposing) return
    event.preventDefault()
    find('[value=yes]', input.form).click()
  })
  const answer = await openDialog(question, input ? [input] : [], [['yes', action, input ? 'primary' : 'danger']])
  return answer === 'yes' && (input ? input.value.trim() : true)
}

for (const form of findAll('form[data-confirm]')) {
  let agreed = false
  form.addEventListener('submit', async event => {
    if (agreed) return
    event.preventDefault()
    const { submitter } = event
    const verb = submitter?.ariaLabel || submitter?.textContent.trim() || words.go_on
    agreed = await confirmed(form.dataset.confirm, verb)
    if (agreed) form.requestSubmit(submitter)
    agreed = false
  })
}

// Filters apply as soon as they are chosen.
const filters = find('[data-filters]')
if (filters) {
  for (const select of findAll('select', filters)) select.addEventListener('change', () => filters.requestSubmit())
  filters.addEventListener('submit', () => {
    for (const field of filters.elements) if (field.name && !field.value) field.disabled = true
  })
  addEventListener('pageshow', () => { for (const field of filters.elements) field.disabled = false })
}

find('[data-checkout]')?.addEventListener('click', async event => {
  event.currentTarget.disabled = true
  try {
    location.assign((await ask('/data/billing/checkout', {})).url)
  } catch (error) {
    toast(error.message)
    find('[data-checkout]').disabled = false
  }
})

// The menu of small screens shows the navigation.
find('details.menu')?.addEventListener('toggle', event => {
  find('.side').classList.toggle('open', event.target.open)
})
// Menus close on a click elsewhere and on Escape.
addEventListener('click', event => {
  for (const menu of findAll('details.person[open], details.drop-down[open]')) if (!menu.contains(event.target)) menu.open = false
})
addEventListener('keydown', event => {
  if (event.key === 'Escape') for (const menu of findAll('details.person[open], details.drop-down[open]')) menu.open = false
})

/** Fills the languages of the chosen model. */
function followModel(form) {
  const models = JSON.parse(form.dataset.models)
  const language = form.elements.language_code
  const fill = () => {
    const chosen = models.find(model => model.id === form.elements.model.value)
    const before = language.value
    language.replaceChildren(make('option', words.find_language, { value: '' }))
    for (const [code, name] of chosen?.languages ?? []) language.append(make('option', name, { value: code }))
    language.value = before
    if (language.selectedIndex < 0) language.value = ''
  }
  form.elements.model.addEventListener('change', fill)
  fill()
}

/** Watches a transcript until it ends. */
async function watchTranscript(id, show) {
  for (let pause = 700; ; pause = Math.min(pause * 1.2, 4000)) {
    try {
      const state = await ask(`/data/transcripts/${encodeURIComponent(id)}/progress`)
      show(state)
      if (state.status === 'completed' || state.status === 'error') return state
    } catch (error) {
      if (!passes(error)) throw error
      pause = 4000
    }
    await waitSeen(pause)
  }
}

/** Follows the transcripts of the list that are still running, all with one request, until none is. */
async function followRows(rows) {
  for (let pause = 1000; rows.size > 0; pause = Math.min(pause * 1.2, 4000)) {
    try {
      const states = await ask(`/data/transcripts/progress?ids=${[...rows.keys()].join()}`)
      for (const [id, row] of rows) {
        const state = states.find(state => state.id === id)
        const running = state?.status === 'queued' || state?.status === 'processing'
        if (!running) rows.delete(id)
        // One that was deleted stays as it was last seen.
        if (state) showRow(row, state)
      }
    } catch (error) {
      if (!passes(error)) throw error
      pause = 4000
    }
    await waitSeen(pause)
  }
}

/** The time that a job still takes by its speed so far; empty until that is known. `seen` keeps what was seen of it first. */
function timeLeft(seen, state) {
  if (state.status !== 'processing' || !state.duration_ms) return ''
  // A job that begins again has gone back.
  if (!seen.since || state.progress_ms < seen.from) Object.assign(seen, { since: Date.now(), from: state.progress_ms })
  const [done, took] = [state.progress_ms - seen.from, Date.now() - seen.since]
  if (done <= 0 || took < 2000) return ''
  return `${clockOf((state.duration_ms - state.progress_ms) / done * took)} ${words.left}`
}

/** Percentage and time left, as they stand behind a status. */
function progressOf(seen, state) {
  const running = state.status === 'queued' || state.status === 'processing'
  const percent = running && state.percent != null ? `${state.percent} %` : ''
  return [percent, timeLeft(seen, state)].filter(Boolean).join(' · ')
}

const seenRows = new WeakMap()
function showRow(row, state) {
  const badge = find('[data-status]', row)
  if (!seenRows.has(row)) seenRows.set(row, {})
  badge.className = `badge ${state.status}`
  badge.textContent = [state.status_name, progressOf(seenRows.get(row), state)].filter(Boolean).join(' ')
  const reason = find('[data-reason]', row)
  reason.textContent = state.error ?? ''
  reason.hidden = !state.error
  for (const name of ['length', 'language', 'cost']) find(`[data-${name}]`, row).textContent = state[name] ?? ''
}

followRows(new Map(findAll('[data-running]').map(row => [row.dataset.running, row]))).catch(() => {})
const progressPage = find('[data-progress]')
if (progressPage) {
  watchTranscript(progressPage.dataset.progress, state => {
    find('[data-status]', progressPage).textContent = state.status_name
    if (state.percent != null) find('progress', progressPage).value = state.percent
  }).then(() => location.reload(), error => toast(error.message))
}
