// Editing a transcript: paragraphs are written in where they stand. Each change is a patch of a version, kept by itself.

const UNSPACED = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f]/

/** The text of words; between characters of scripts without spaces there is none. */
function joined(spoken) {
  return spoken.reduce((text, word) => {
    const gap = text && !(UNSPACED.test(text.at(-1)) && UNSPACED.test(word.text[0])) ? ' ' : ''
    return text + gap + word.text
  }, '')
}

/** The parts in which two lists of texts differ: `from` and `to` in the first one, and the texts in their place. */
function differences(before, after) {
  let head = 0
  while (head < before.length && head < after.length && before[head] === after[head]) head++
  let tail = 0
  while (tail < Math.min(before.length, after.length) - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++
  const old = before.slice(head, before.length - tail)
  const now = after.slice(head, after.length - tail)
  if (!old.length && !now.length) return []
  if (old.length * now.length > 1e6) return [{ from: head, to: head + old.length, texts: now }]
  // The longest common subsequence from each pair of places on.
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1))
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i][j] = old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1])
    }
  }
  const parts = []
  let last
  for (let [i, j] = [0, 0]; i < old.length || j < now.length;) {
    if (i < old.length && j < now.length && old[i] === now[j]) { last = undefined; i++; j++; continue }
    if (!last) parts.push(last = { from: head + i, to: head + i, texts: [] })
    if (j >= now.length || (i < old.length && common[i + 1][j] >= common[i][j + 1])) { last.to++; i++ } else last.texts.push(now[j++])
  }
  return parts
}

/** Words of these texts in the time of others: as many keep the times, and others share it by their length. */
function timed(old, texts) {
  if (old.length === texts.length) {
    return texts.map((text, at) => ({ ...old[at], text, confidence: old[at].text === text ? old[at].confidence : 1 }))
  }
  const start = Math.min(...old.map(word => word.start))
  const length = Math.max(...old.map(word => word.end)) - start
  const all = texts.reduce((sum, text) => sum + text.length + 1, 0)
  let before = 0
  return texts.map((text, at) => {
    const from = start + Math.floor(length * before / all)
    before += text.length + 1
    const confidence = old[at]?.text === text ? old[at].confidence : 1
    return { ...old[0], text, start: from, end: start + Math.floor(length * before / all), confidence }
  })
}

/** The label after all others: A to Z, then AA and so on. */
function newLabel(labels) {
  const number = label => [...label].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0)
  let next = Math.max(0, ...labels.filter(label => /^[A-Z]{1,2}$/.test(label)).map(number))
  return next < 26 ? String.fromCharCode(65 + next) : String.fromCharCode(64 + Math.floor(next / 26), 65 + next % 26)
}

function startEditor({ id, version, reader, paragraphs, spoken, speakers, nameOf, fill, number, forgetHits, load }) {
  const heading = find('h1[data-title]')
  const toggle = find('[data-edit]', reader)
  const undoButton = find('[data-undo]', reader)
  const state = find('[data-saved]', reader)
  // Patches that are not kept yet, in order, and how to take back those that were made.
  let queue = []
  const made = []
  let sending = false
  let ended = false
  // Patches were put over the words of somebody else, whose paragraphs may differ.
  let merged = false
  let typing
  let title = heading.textContent

  const tell = (text, isBad = false) => { state.textContent = text; state.className = isBad ? 'problem' : 'muted small' }
  const isEditing = () => reader.classList.contains('editing')
  const wordsOf = paragraph => paragraph.line.textContent.split(/\s+/).filter(Boolean)

  /** Where a patch stands in time, to find its place again in another version. */
  const timesOf = ({ from, to }) => [spoken[from]?.start ?? Infinity, spoken[to]?.start ?? Infinity]

  /** The paragraph of a patch's words. */
  const paragraphOf = ({ from }) => paragraphs.findLast(({ first, words: own }) => first <= from && own.length) ?? paragraphs[0]

  /** Does a patch on the page, and returns those that take it back. */
  function apply(patch, isTyped = false) {
    const undo = []
    if ('title' in patch) {
      undo.push({ title })
      title = patch.title
      if (!isTyped) heading.textContent = title
    } else if (patch.words) {
      const paragraph = patch.paragraph ?? paragraphOf(patch)
      const at = patch.from - paragraph.first
      const old = paragraph.words.splice(at, patch.to - patch.from, ...patch.words)
      undo.push({ paragraph, from: patch.from, to: patch.from + patch.words.length, words: old })
      // The time of a paragraph without words, for those that may come back.
      if (!paragraph.words.length) paragraph.gone = old
      fill(paragraph, isTyped)
    } else {
      for (const paragraph of paragraphs) {
        const { first, words: own, speaker } = paragraph
        const isMeant = own.length && (patch.of ? speaker === patch.of : first >= patch.from && first + own.length <= patch.to)
        if (!isMeant) continue
        undo.push({ from: first, to: first + own.length, speaker })
        paragraph.words = own.map(word => ({ ...word, speaker: patch.speaker, speaker_name: undefined }))
        paragraph.speaker = patch.speaker
      }
    }
    forgetHits()
    number()
    return undo
  }

  /** Does patches, each on the words that those before have left, and sends them. */
  function change(patches, { isTyped = false, isUndo = false } = {}) {
    const undo = []
    for (const patch of patches) {
      queue.push({ ...patch, times: 'from' in patch ? timesOf(patch) : undefined })
      undo.unshift(...apply(patch, isTyped))
    }
    if (!isUndo && undo.length) made.push(undo)
    undoButton.disabled = !made.length
    send()
  }

  function undo() {
    if (document.activeElement?.isContentEditable) document.activeElement.blur()
    const patches = made.pop()
    if (patches) change(patches, { isUndo: true })
  }

  /** Makes patches of what was typed into a paragraph. */
  function takeTyped(paragraph, isTyped) {
    const before = paragraph.words.map(word => word.text)
    const after = wordsOf(paragraph)
    let parts = differences(before, after)
    // Words before the first one share its time, which no other part may then touch.
    if (parts.length > 1 && parts[0].to === 0) parts = [{ from: 0, to: before.length, texts: after }]
    // Later ones first: they leave the places of those before as they are.
    const patches = parts.reverse().map(({ from, to, texts }) => {
      // A word that is put between two takes a part of the time of the one before.
      const own = before.length ? paragraph.words : paragraph.gone
      if (from === to && from > 0) texts.unshift(before[--from])
      else if (from === to && before.length) texts.push(before[to++])
      const first = paragraph.first
      return { paragraph, from: first + from, to: first + to, words: timed(before.length ? own.slice(from, to) : own, texts) }
    })
    const isLast = spoken.length === before.length && !after.length
    if (isLast) toast(words.edit_last)
    else if (patches.length) change(patches, { isTyped })
    else if (!queue.length) tell('')
    if (!isTyped) { fill(paragraph); number() }
  }

  function takeTitle() {
    const typed = heading.textContent.split(/\s+/).join(' ').trim().slice(0, 500)
    if (typed && typed !== title) change([{ title: typed }], { isTyped: true })
    else if (!queue.length) tell('')
  }

  const take = (target, isTyped) => {
    clearTimeout(typing)
    if (target === heading) {
      takeTitle()
      if (!isTyped) heading.textContent = title
    } else if (target.dataset?.paragraph) takeTyped(paragraphs[target.dataset.paragraph], isTyped)
  }

  /** A patch as the service reads it. */
  function sent({ from, to, of, speaker, words: own }) {
    return JSON.parse(JSON.stringify({ from, to, of, speaker, words: own }))
  }

  async function send() {
    if (sending || ended) return
    sending = true
    for (let pause = 1000; queue.length && !ended;) {
      tell(words.saving)
      const batch = queue.slice(0, 100)
      const titles = batch.filter(patch => 'title' in patch)
      const edits = batch.filter(patch => !('title' in patch)).map(sent)
      const body = { version, edits: edits.length ? edits : undefined, title: titles.at(-1)?.title }
      try {
        const response = await respond(`/data/transcripts/${id}`, body, {}, undefined, 'PATCH')
        version = (await response.json()).version
        queue.splice(0, batch.length)
        pause = 1000
        tell(words.saved)
      } catch (error) {
        if (passes(error)) {
          tell(words.edit_waits, true)
          await wait(pause)
          pause = Math.min(pause * 2, 15000)
        } else if (error.status === 409) {
          await settle()
        } else if (error.status === 422) {
          queue = []
          await reload()
          tell(error.message, true)
        } else {
          end(error.status === 404 ? words.edit_gone : error.message)
        }
      }
    }
    if (merged && !ended) {
      merged = false
      await reload().catch(error => tell(error.message, true))
    }
    sending = false
  }

  /** Shows the words as the service has them. */
  async function reload() {
    version = await load()
    made.length = 0
    undoButton.disabled = true
    if (isEditing()) arm()
  }

  /** Somebody else was faster: the reader chooses what counts. */
  async function settle() {
    const lead = make('p', words.edit_conflict_lead)
    const choice = await openDialog(words.edit_conflict, [lead], [['theirs', words.edit_theirs], ['mine', words.edit_mine, 'primary']], false)
    const own = queue
    queue = []
    try {
      await reload()
    } catch (error) {
      return end(error.status === 404 ? words.edit_gone : error.message)
    }
    tell('')
    if (choice !== 'mine') return
    merged = true
    for (const patch of own) {
      if (patch.times) {
        const place = time => { const at = spoken.findIndex(word => word.start >= time); return at < 0 ? spoken.length : at }
        const [from, to] = patch.times.map(place)
        // Words of one paragraph there may be those of two here.
        const paragraph = paragraphOf({ from })
        const end = patch.words ? Math.min(to, paragraph.first + paragraph.words.length) : to
        change([{ ...patch, paragraph: undefined, from, to: Math.max(from, end) }])
      } else {
        change([patch])
      }
    }
  }

  /** Nothing can be kept any more. What is on the page can still be copied. */
  function end(message) {
    ended = true
    queue = []
    edit(false)
    toggle.disabled = true
    tell(message, true)
  }

  /** Lets paragraphs be written in, or not. */
  function arm() {
    const on = isEditing()
    for (const { block, line, words: own } of paragraphs) {
      if (on) {
        line.contentEditable = 'plaintext-only'
        line.role = 'textbox'
        line.ariaLabel = `${words.edit_paragraph} ${clockOf(own[0]?.start ?? 0)}`
        if (speakers.size && !find('[data-turn]', block)) {
          const button = make('button', words.edit_speaker, { type: 'button', class: 'plain small turn' })
          button.dataset.turn = line.dataset.paragraph
          block.append(button)
        }
      } else {
        for (const name of ['contenteditable', 'role', 'aria-label']) line.removeAttribute(name)
      }
    }
    if (on) {
      heading.contentEditable = 'plaintext-only'
      heading.ariaLabel = words.edit_title
    } else {
      for (const name of ['contenteditable', 'aria-label']) heading.removeAttribute(name)
    }
  }

  function edit(on) {
    if (!on && document.activeElement?.isContentEditable) document.activeElement.blur()
    reader.classList.toggle('editing', on)
    toggle.ariaPressed = String(on)
    undoButton.hidden = !on
    arm()
  }

  /** Asks who speaks, and for how much of the transcript that counts. */
  async function reassign(paragraph) {
    const at = paragraphs.indexOf(paragraph)
    const labels = [...new Set(paragraphs.filter(one => one.words.length).map(one => one.speaker))]
    const select = make('select', '', { name: 'speaker' })
    for (const label of labels) select.append(make('option', nameOf(label), { value: label }))
    select.append(make('option', words.edit_new_speaker, { value: newLabel([...speakers.keys()]) }))
    select.value = paragraph.speaker
    const who = make('label', words.edit_who)
    who.append(select)
    const scopes = make('fieldset', '', { class: 'stack plain-set' })
    scopes.append(make('legend', words.edit_scope, { class: 'hidden' }))
    for (const [value, text] of [['turn', words.edit_turn], ['paragraph', words.edit_here], ['all', `${words.edit_all} ${nameOf(paragraph.speaker)}`]]) {
      const choice = make('label', '', { class: 'choice' })
      const radio = make('input', '', { type: 'radio', name: 'scope', value })
      radio.checked = value === 'turn'
      choice.append(radio, make('span', text))
      scopes.append(choice)
    }
    if (await openDialog(words.edit_speaker_title, [who, scopes], [['yes', words.edit_assign, 'primary']]) !== 'yes') return
    const speaker = select.value
    const scope = find('input:checked', scopes).value
    if (speaker === paragraph.speaker) return
    if (scope === 'all') return change([{ of: paragraph.speaker, speaker }])
    let [from, to] = [at, at]
    if (scope === 'turn') {
      const isSame = one => one && (one.speaker === paragraph.speaker || !one.words.length)
      while (isSame(paragraphs[from - 1])) from--
      while (isSame(paragraphs[to + 1])) to++
    }
    change([{ from: paragraphs[from].first, to: paragraphs[to].first + paragraphs[to].words.length, speaker }])
  }

  toggle.addEventListener('click', () => edit(!isEditing()))
  undoButton.addEventListener('click', undo)
  for (const part of [reader, heading]) {
    part.addEventListener('input', ({ target }) => {
      if (!target.isContentEditable) return
      clearTimeout(typing)
      tell(words.edit_typing)
      typing = setTimeout(() => take(target, true), 900)
    })
    part.addEventListener('focusout', ({ target }) => { if (target.isContentEditable) take(target, false) })
    part.addEventListener('keydown', event => {
      if (!event.target.isContentEditable || event.isComposing) return
      // A paragraph is one line; Escape and Enter end writing in it.
      if (event.key === 'Enter' || event.key === 'Escape') { event.preventDefault(); event.target.blur() }
    })
  }
  reader.addEventListener('click', event => {
    const turn = event.target.closest('[data-turn]')
    if (turn) reassign(paragraphs[turn.dataset.turn])
  })
  addEventListener('keydown', event => {
    const isUndo = (event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === 'z'
    if (!isUndo || !isEditing() || event.target.closest?.('input, textarea, [contenteditable]')) return
    event.preventDefault()
    undo()
  })
  addEventListener('beforeunload', event => { if (queue.length || (document.activeElement?.isContentEditable && state.textContent === words.edit_typing)) event.preventDefault() })
  toggle.disabled = false
}
