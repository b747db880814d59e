// Uploads and the code for them. A file goes through the same signed address as any client's.
const uploadForm = find('[data-upload]')
const FLAGS = ['speaker_labels', 'summarization', 'auto_chapters', 'entity_detection', 'sentiment_analysis',
  'content_moderation', 'pii_redaction', 'profanity_filter']

/** The options of the form, as the API has them. */
function optionsOf(form) {
  const options = { model: form.elements.model.value }
  for (const name of ['language_code', 'title', 'webhook_url']) {
    const value = form.elements[name].value.trim()
    if (value) options[name] = value
  }
  for (const name of FLAGS) if (form.elements[name].checked) options[name] = true
  const terms = form.elements.keyterms_prompt.value.split('\n').map(term => term.trim()).filter(Boolean)
  if (terms.length) options.keyterms_prompt = terms
  return options
}

/** Sends a file to its signed address, and tells how much has gone. */
function put(signed, file, progress) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest()
    request.open(signed.method, signed.url)
    for (const [name, value] of Object.entries(signed.headers)) request.setRequestHeader(name, value)
    request.upload.onprogress = event => progress(event.loaded / Math.max(1, event.total))
    request.onload = () => {
      if (request.status < 300) return done()
      let message
      try { message = JSON.parse(request.responseText).error.message } catch { message = words.broken }
      failed(new Error(message))
    }
    request.onerror = request.onabort = () => failed(new Error(words.broken))
    request.send(file)
  })
}

/** A line of the list of files. */
function jobLine(name) {
  const line = make('li')
  const bar = make('progress', '', { max: 100 })
  const state = make('span', words.starting, { class: 'badge' })
  const title = make('span', name, { class: 'strong name' })
  const links = make('span', '', { class: 'links' })
  const reason = make('p', '', { class: 'reason', hidden: '' })
  bar.ariaLabel = name
  line.append(title, state, bar, links, reason)
  find('[data-jobs]').hidden = false
  find('.jobs').prepend(line)
  return {
    show(kind, text, value) {
      state.className = `badge ${kind}`
      state.textContent = text
      if (value == null) bar.removeAttribute('value')
      else bar.value = value
      bar.hidden = kind === 'completed' || kind === 'error'
    },
    fail(why) {
      this.show('error', words.error)
      reason.textContent = why
      reason.hidden = false
    },
    link(text, href) { links.replaceChildren(make('a', text, { href })) },
    retry(again) {
      const button = make('button', words.retry, { type: 'button' })
      button.addEventListener('click', () => { line.remove(); again() })
      links.replaceChildren(button)
    },
    title(href) { title.replaceChildren(make('a', name, { href })) },
  }
}

/** Creates a transcript. When no answer comes, the request is sent again with its key, so that it is billed once. */
async function create(body) {
  const key = [...crypto.getRandomValues(new Uint8Array(16))].map(byte => byte.toString(16).padStart(2, '0')).join('')
  for (let left = 5; ; left--) {
    try {
      return await ask('/data/transcripts', body, { 'idempotency-key': key })
    } catch (error) {
      if (!error.offline || left === 0) throw error
      await wait(2000)
    }
  }
}

/** Transcribes a file or an address. */
async function transcribe(source, options) {
  const line = jobLine(source.name ?? source.url)
  const body = { ...options }
  try {
    if (source.url) body.audio_url = source.url
    else {
      const kind = source.type || 'application/octet-stream'
      const signed = await ask('/data/uploads/sign', { filename: source.name, content_type: kind, size_bytes: source.size })
      line.show('', words.uploading, 0)
      await put(signed, source, part => line.show('', `${words.uploading} ${Math.floor(part * 100)} %`, part * 100))
      await ask(`/data/uploads/${signed.upload_id}/complete`, {})
      body.upload_id = signed.upload_id
    }
    const created = await create(body)
    const page = `/transcripts/${created.id}`
    line.title(page)
    line.show('processing', words.queued)
    const seen = {}
    const end = await watchTranscript(created.id, state => {
      line.show(state.status, [words[state.status], progressOf(seen, state)].filter(Boolean).join(' '), state.percent)
    })
    if (end.status === 'error') line.fail(end.error ?? words.error)
    else line.link(words.open, page)
    await showResult(created.id, end)
  } catch (error) {
    line.fail(error.message)
    line.retry(() => transcribe(source, options))
  }
}

/** Shows the text below the form of the playground. */
async function showResult(id, end) {
  const panel = find('[data-result]')
  if (!panel) return
  const text = find('.text', panel)
  panel.hidden = false
  if (end.status === 'error') return text.replaceChildren(make('p', end.error ?? words.error, { class: 'problem' }))
  try {
    const { paragraphs } = await ask(`/data/transcripts/${id}/paragraphs`)
    text.replaceChildren(...paragraphs.map(one => make('p', (one.speaker ? `${one.speaker}: ` : '') + one.text)))
  } catch (error) {
    text.replaceChildren(make('p', error.status === 409 ? words.silent : error.message, { class: 'muted' }))
  }
}

/** Presets of the form: options that the account keeps. */
function usePresets(form) {
  const presets = new Map(JSON.parse(form.dataset.presets))
  const { preset } = form.elements
  const remove = find('[data-preset-delete]', form)
  const apply = () => {
    const options = presets.get(preset.value)
    remove.hidden = !options
    if (!options) return
    const { elements } = form
    if (findAll('option', elements.model).some(option => option.value === options.model)) elements.model.value = options.model
    elements.model.dispatchEvent(new Event('change', { bubbles: true }))
    elements.language_code.value = options.language_code ?? ''
    if (elements.language_code.selectedIndex < 0) elements.language_code.value = ''
    elements.webhook_url.value = options.webhook_url ?? ''
    elements.keyterms_prompt.value = (options.keyterms_prompt ?? []).join('\n')
    for (const name of FLAGS) elements[name].checked = options[name] === true && !elements[name].disabled
  }
  preset.addEventListener('change', apply)
  find('[data-preset-keep]', form).addEventListener('click', async () => {
    const name = await confirmed(words.preset_question, words.preset_keep, { maxlength: 40, value: preset.value })
    if (!name) return
    // A title is of one file.
    const { title, ...options } = optionsOf(form)
    try {
      const kept = await ask('/data/presets', { name, options })
      if (!presets.has(kept.name)) preset.append(make('option', kept.name, { value: kept.name }))
      presets.set(kept.name, options)
      preset.value = kept.name
      apply()
      toast(words.preset_kept)
    } catch (error) {
      toast(error.message)
    }
  })
  remove.addEventListener('click', async () => {
    try {
      await ask('/data/presets/delete', { name: preset.value })
      presets.delete(preset.value)
      preset.selectedOptions[0].remove()
      preset.value = ''
      apply()
    } catch (error) {
      toast(error.message)
    }
  })
}

if (uploadForm) {
  followModel(uploadForm)
  usePresets(uploadForm)
  const drop = find('[data-drop]')
  // On the list of transcripts the form stands in a dialog, which opens with the files.
  const dialog = find('[data-upload-dialog]')
  let waiting = []
  const take = files => {
    if (!dialog) return files.forEach(file => transcribe(file, optionsOf(uploadForm)))
    waiting.push(...files)
    find('[data-waiting]').replaceChildren(...waiting.map(file => make('li', file.name ?? file.url)))
    if (!dialog.open && waiting.length) dialog.showModal()
  }
  // The event comes later: by then the dialog may have opened with other files.
  dialog?.addEventListener('close', () => { if (!dialog.open) waiting = [] })
  const shut = () => {
    waiting = []
    dialog.close()
  }
  const begin = () => {
    for (const file of waiting) transcribe(file, optionsOf(uploadForm))
    shut()
  }
  let inside = 0
  const over = on => {
    drop.classList.toggle('over', on)
    document.body.classList.toggle('dropping', on)
  }
  const hasFiles = event => event.dataTransfer?.types.includes('Files')
  addEventListener('dragenter', event => { if (hasFiles(event)) { event.preventDefault(); inside++; over(true) } })
  addEventListener('dragleave', event => { if (hasFiles(event) && --inside <= 0) over(false) })
  addEventListener('dragover', event => { if (hasFiles(event)) event.preventDefault() })
  addEventListener('drop', event => {
    if (!hasFiles(event)) return
    event.preventDefault()
    inside = 0
    over(false)
    take([...event.dataTransfer.files])
  })
  uploadForm.elements.file.addEventListener('change', event => {
    take([...event.target.files])
    event.target.value = ''
  })
  uploadForm.addEventListener('submit', event => {
    event.preventDefault()
    const url = uploadForm.elements.url.value.trim()
    if (!url) return toast(words.no_file)
    take([{ url }])
    uploadForm.elements.url.value = ''
    if (dialog) begin()
  })
  if (dialog) {
    find('[data-drop-begin]').addEventListener('click', begin)
    find('[data-drop-cancel]').addEventListener('click', shut)
  }
}

/** Code as a language quotes it. */
const json = (value, indent) => JSON.stringify(value, null, indent)
const PYTHON = { true: 'True', false: 'False', null: 'None' }
// Texts are matched too, so that words within them stay as they are.
const python = value => json(value, 4).replace(/"(?:[^"\\]|\\.)*"|true|false|null/g, part => PYTHON[part] ?? part)
const shell = text => `'${text.replaceAll("'", "'\\''")}'`

/** Options as fields of a form: texts as they are, and other values as JSON. */
const formFields = options => Object.entries(options)
  .map(([name, value]) => ` \\\n  --form-string ${shell(`${name}=${typeof value === 'string' ? value : json(value)}`)}`)
  .join('')

const FILE_CODE = {
  curl: (api, options, file) => `# Send the file and the options, wait.
id=$(curl -s ${api}/v2/transcripts -H "Authorization: Bearer $AURICLE_KEY" \\
  -F ${shell(`file=@"${file.replace(/["\\]/g, '\\$&')}"`)}${formFields(options)} | jq -r .id)
until curl -s ${api}/v2/transcripts/$id -H "Authorization: Bearer $AURICLE_KEY" |
  jq -e 'select(.status == "completed" or .status == "error") | .text // .error'; do sleep 1; done`,
  python: (api, options, file) => `import os, time, requests

api = ${json(api)}
session = requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["AURICLE_KEY"]

signed = session.post(api + "/v2/uploads/sign", json={
    "filename": ${json(file)}, "content_type": "audio/mpeg"}).json()
with open(${json(file)}, "rb") as audio:
    requests.put(signed["url"], data=audio, headers=signed["headers"]).raise_for_status()
session.post(f"{api}/v2/uploads/{signed['upload_id']}/complete").raise_for_status()

options = ${python(options)}
created = session.post(api + "/v2/transcripts", json=options | {"upload_id": signed["upload_id"]}).json()
while True:
    transcript = session.get(f"{api}/v2/transcripts/{created['id']}").json()
    if transcript["status"] in ("completed", "error"):
        break
    time.sleep(1)
print(transcript["text"] or transcript["error"])`,
  javascript: (api, options, file) => `import { readFile } from 'node:fs/promises'

const api = ${json(api)}
const call = async (path, body) => {
  const response = await fetch(api + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: \`Bearer \${process.env.AURICLE_KEY}\`, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  })
  if (!response.ok) throw new Error(await response.text())
  return response.json()
}

const signed = await call('/v2/uploads/sign', { filename: ${json(file)}, content_type: 'audio/mpeg' })
await fetch(signed.url, { method: 'PUT', headers: signed.headers, body: await readFile(${json(file)}) })
await call(\`/v2/uploads/\${signed.upload_id}/complete\`, {})

const options = ${json(options, 2)}
let transcript = await call('/v2/transcripts', { ...options, upload_id: signed.upload_id })
while (!['completed', 'error'].includes(transcript.status)) {
  await new Promise(done => setTimeout(done, 1000))
  transcript = await call(\`/v2/transcripts/\${transcript.id}\`)
}
console.log(transcript.text ?? transcript.error)`,
  rust: (api, options, file) => `// reqwest with "blocking" and "json", serde_json
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (api, key) = (${json(api)}, std::env::var("AURICLE_KEY")?);
    let http = reqwest::blocking::Client::new();
    let post = |path: &str, body: &Value| -> reqwest::Result<Value> {
        http.post(format!("{api}{path}")).bearer_auth(&key).json(body).send()?.error_for_status()?.json()
    };
    let signed = post("/v2/uploads/sign", &json!({"filename": ${json(file)}, "content_type": "audio/mpeg"}))?;
    let put = http.put(signed["url"].as_str().unwrap_or_default()).header("content-type", "audio/mpeg");
    put.body(std::fs::File::open(${json(file)})?).send()?.error_for_status()?;
    let upload = signed["upload_id"].as_str().unwrap_or_default();
    post(&format!("/v2/uploads/{upload}/complete"), &json!({}))?;

    let mut options = json!(${json(options)});
    options["upload_id"] = upload.into();
    let mut transcript = post("/v2/transcripts", &options)?;
    while !matches!(transcript["status"].as_str(), Some("completed" | "error")) {
        std::thread::sleep(std::time::Duration::from_secs(1));
        let url = format!("{api}/v2/transcripts/{}", transcript["id"].as_str().unwrap_or_default());
        transcript = http.get(url).bearer_auth(&key).send()?.json()?;
    }
    println!("{}", transcript["text"].as_str().or(transcript["error"].as_str()).unwrap_or_default());
    Ok(())
}`,
}

/** Shows code in the chosen language, and again whenever the form changes. */
function showCode(form, templates, values) {
  const panel = find('[data-code]')
  const tabs = findAll('[data-lang]', panel)
  let language = 'curl'
  const show = () => { find('pre', panel).textContent = templates[language](...values()) }
  const choose = tab => {
    language = tab.dataset.lang
    for (const other of tabs) {
      other.ariaSelected = String(other === tab)
      other.tabIndex = other === tab ? 0 : -1
    }
    show()
  }
  tabs.forEach((tab, at) => {
    tab.addEventListener('click', () => choose(tab))
    tab.addEventListener('keydown', event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
      if (!step) return
      const next = tabs[(at + step + tabs.length) % tabs.length]
      next.focus()
      choose(next)
    })
  })
  form.addEventListener('change', show)
  form.addEventListener('input', show)
  choose(tabs[0])
  return show
}
if (uploadForm && find('[data-code]')) {
  let file = 'recording.mp3'
  uploadForm.elements.file.addEventListener('change', event => { file = event.target.files[0]?.name ?? file }, { capture: true })
  showCode(uploadForm, FILE_CODE, () => [uploadForm.dataset.api, optionsOf(uploadForm), file])
}
