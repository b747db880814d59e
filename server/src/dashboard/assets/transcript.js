// A transcript's page: words that follow the player, find, keyboard, questions. `edit.js` changes the words.
const reader = find('[data-reader]')

if (reader) {
  const id = reader.dataset.reader
  const place = find('[data-words]', reader)
  const media = find('[data-media]', reader)
  const playButton = find('[data-play]', reader)
  const seek = find('[data-seek]', reader)
  const now = find('[data-now]', reader)
  const played = find('[data-played]', reader)
  // Each word with its paragraph, in order of time.
  const spoken = []
  // Each paragraph with its line, its text in lower case, where its words begin in it, and the elements of its words once it was seen.
  const paragraphs = []

  // A recording of hours has more words than a page can hold at once: a paragraph is plain text until it is near.
  const nearby = new IntersectionObserver(entries => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) elementsOf(paragraphs[target.dataset.paragraph])
  }, { rootMargin: '600px' })

  /** The elements of a paragraph's words. */
  function elementsOf(paragraph) {
    // A paragraph that is typed into stays as it is until it is left.
    if (paragraph.elements || paragraph.line === document.activeElement) return paragraph.elements ?? []
    nearby.unobserve(paragraph.line)
    paragraph.elements = paragraph.words.map(({ text, confidence }, at) => {
      const element = make('span', text, { class: confidence < 0.5 ? 'unsure' : '' })
      element.dataset.word = paragraph.first + at
      return element
    })
    paragraph.line.replaceChildren(...paragraph.elements.flatMap((element, at) => (at ? [' ', element] : [element])))
    return paragraph.elements
  }
  const elementOf = word => word && elementsOf(word.paragraph)[word.at]

  const speakers = new Map()
  const colourOf = speaker => {
    if (!speakers.has(speaker)) speakers.set(speaker, speakers.size % 8)
    return speakers.get(speaker)
  }

  // The names that people gave to speakers, by label, and those of the voices that the account knows.
  const names = new Map(Object.entries(JSON.parse(reader.dataset.names)))
  const known = new Map()
  const nameOf = label => names.get(label) ?? known.get(label) ?? `${words.speaker} ${label}`

  function makeSpeaker(label) {
    const button = make('button', nameOf(label), { type: 'button', class: 'speaker plain', title: words.speaker_rename })
    button.dataset.speaker = label
    return button
  }

  async function keepName(label, name) {
    try {
      const kept = await ask(`/data/transcripts/${id}/speakers`, { speaker: label, name })
      if (kept.name) names.set(label, kept.name)
      else names.delete(label)
    } catch (error) {
      toast(error.message)
    }
    for (const button of findAll('[data-speaker]', place)) if (button.dataset.speaker === label) button.textContent = nameOf(label)
    showTalk()
  }

  /** Puts a field in the place of a speaker's name, until it is left. */
  function rename(button) {
    const label = button.dataset.speaker
    const field = make('input', '', { class: 'speaker', maxlength: 100, placeholder: `${words.speaker} ${label}`, 'aria-label': `${words.speaker_name} ${label}` })
    const before = names.get(label) ?? ''
    field.value = before
    let left = false
    const leave = keep => {
      // The field loses the focus once more as it goes.
      if (left) return
      left = true
      const had = document.activeElement === field
      field.replaceWith(button)
      if (had) button.focus()
      if (keep && field.value.trim() !== before) keepName(label, field.value)
    }
    field.addEventListener('keydown', event => {
      if (event.isComposing || !['Enter', 'Escape'].includes(event.key)) return
      // The button has the focus next, and the same key would press it.
      event.preventDefault()
      leave(event.key === 'Enter')
    })
    field.addEventListener('blur', () => leave(true))
    button.replaceWith(field)
    field.focus()
    field.select()
  }

  /** What follows from the words of a paragraph; its line is written anew unless somebody types in it. */
  function fill(paragraph, isTyped) {
    paragraph.starts = []
    let text = ''
    for (const word of paragraph.words) {
      if (text) text += ' '
      paragraph.starts.push(text.length)
      text += word.text
    }
    paragraph.text = text.toLowerCase()
    paragraph.speaker = paragraph.words[0]?.speaker ?? paragraph.speaker
    if (isTyped) return
    paragraph.block.hidden = !paragraph.words.length
    paragraph.elements = undefined
    paragraph.line.textContent = text
    // Its place is looked at once more.
    nearby.unobserve(paragraph.line)
    nearby.observe(paragraph.line)
  }

  /** Numbers the words, and shows who says them. */
  function number() {
    spoken.length = 0
    let last
    for (const paragraph of paragraphs) {
      const { block, words: own, speaker, elements } = paragraph
      paragraph.first = spoken.length
      own.forEach((word, at) => spoken.push({ start: word.start, paragraph, at }))
      elements?.forEach((element, at) => { element.dataset.word = paragraph.first + at })
      if (!own.length) continue
      const shown = speaker && speaker !== last ? speaker : undefined
      const head = block.firstChild.dataset.speaker ? block.firstChild : undefined
      if (head?.dataset.speaker !== shown) head?.remove()
      if (shown && head?.dataset.speaker !== shown) block.prepend(makeSpeaker(shown))
      block.className = speaker ? `paragraph speaker-${colourOf(speaker)}` : 'paragraph'
      last = speaker
    }
    showTalk()
  }

  /** How long each speaker talks. */
  function showTalk() {
    const panel = find('[data-talk]', reader)
    const times = new Map()
    for (const { speaker, words: own } of paragraphs) {
      if (speaker && own.length) times.set(speaker, (times.get(speaker) ?? 0) + own.at(-1).end - own[0].start)
    }
    panel.hidden = !times.size
    const all = [...times.values()].reduce((sum, ms) => sum + ms, 0) || 1
    // Whole percents that make a hundred: the largest rests are rounded up.
    const shares = [...times].map(([label, ms]) => ({ label, ms, percent: Math.floor(100 * ms / all), rest: 100 * ms / all % 1 }))
    const missing = 100 - shares.reduce((sum, { percent }) => sum + percent, 0)
    for (const share of [...shares].sort((one, other) => other.rest - one.rest).slice(0, missing)) share.percent++
    find('ul', panel).replaceChildren(...shares.map(({ label, ms, percent }) => {
      const line = make('li', '', { class: `speaker-${colourOf(label)}` })
      line.append(make('span', '', { class: 'swatch' }), make('span', nameOf(label), { class: 'wrap' }), make('span', `${clockOf(ms)} · ${percent} %`, { class: 'at' }))
      return line
    }))
  }

  function showParagraphs(found) {
    const fragment = document.createDocumentFragment()
    paragraphs.length = 0
    for (const one of found) {
      const block = make('div')
      const name = one.words[0]?.speaker_name
      if (name) known.set(one.speaker, name)
      const time = make('button', clockOf(one.start), { type: 'button', class: 'at plain' })
      time.dataset.at = one.start
      const line = make('p')
      line.dataset.paragraph = paragraphs.length
      const paragraph = { words: one.words, block, line }
      paragraphs.push(paragraph)
      block.append(time, line)
      fill(paragraph)
      fragment.append(block)
    }
    number()
    place.replaceChildren(fragment)
    place.ariaBusy = 'false'
  }

  /** The last word that begins at or before a time. */
  function wordAt(ms) {
    let [low, high] = [0, spoken.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (spoken[middle].start <= ms) low = middle + 1
      else high = middle
    }
    return low - 1
  }

  let lit
  function light(ms, follow) {
    const word = elementOf(spoken[wordAt(ms)])
    if (word === lit) return
    lit?.classList.remove('lit')
    word?.classList.add('lit')
    lit = word
    if (!word || !follow) return
    const box = word.getBoundingClientRect()
    // The page follows while the reader has not scrolled away.
    const edge = Math.min(innerHeight - 120, place.parentElement.getBoundingClientRect().bottom - 40)
    if (box.bottom > edge && box.top < edge + 320) word.scrollIntoView({ block: 'center' })
  }

  function goTo(ms, play) {
    if (media) {
      media.currentTime = ms / 1000
      if (play) media.play().catch(() => {})
    }
    light(ms, false)
    lit?.scrollIntoView({ block: 'center', behavior: 'auto' })
  }

  reader.addEventListener('click', event => {
    const word = event.target.closest('[data-word]')
    const jump = event.target.closest('[data-at]')
    const speaker = event.target.closest('[data-speaker]')
    if (word && getSelection().isCollapsed && !reader.classList.contains('editing')) goTo(spoken[word.dataset.word].start, true)
    if (jump) goTo(Number(jump.dataset.at), true)
    if (speaker) rename(speaker)
  })

  if (media) {
    const show = () => {
      const ms = media.currentTime * 1000
      now.textContent = clockOf(ms)
      if (document.activeElement !== seek || !media.paused) seek.value = ms
      played?.setAttribute('width', ms / seek.max * played.ownerSVGElement.viewBox.baseVal.width)
      light(ms, !media.paused)
    }
    let frame
    const follow = () => { show(); frame = requestAnimationFrame(follow) }
    const toggle = () => { if (media.paused) media.play().catch(() => toast(words.media_failed)); else media.pause() }
    media.addEventListener('play', () => { reader.classList.add('playing'); cancelAnimationFrame(frame); follow() })
    media.addEventListener('pause', () => { reader.classList.remove('playing'); cancelAnimationFrame(frame); show() })
    media.addEventListener('seeked', show)
    media.addEventListener('error', () => toast(words.media_failed))
    playButton.addEventListener('click', toggle)
    media.addEventListener('click', toggle)
    seek.addEventListener('input', () => { media.currentTime = seek.value / 1000; show() })
    find('[data-speed]', reader).addEventListener('change', event => { media.playbackRate = Number(event.target.value) })
    const skip = seconds => { media.currentTime = Math.max(0, media.currentTime + seconds) }
    const keys = { ' ': toggle, k: () => media.pause(), j: () => skip(-10), l: () => skip(10), ArrowLeft: () => skip(-5), ArrowRight: () => skip(5) }
    addEventListener('keydown', event => {
      const writes = event.target.closest?.('input:not([type=range]), textarea, select, button, a, summary, dialog, [contenteditable]')
      const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key]
      if (!action || writes || event.ctrlKey || event.metaKey || event.altKey) return
      event.preventDefault()
      action()
    })
  }

  // Find in the text.
  const field = find('[data-find]', reader)
  const count = find('[data-hits]', reader)
  let hits = []
  let hit = -1
  function look() {
    for (const found of hits) for (const element of found) element.classList.remove('hit', 'here')
    hits = []
    hit = -1
    const wanted = field.value.trim().toLowerCase().replace(/\s+/g, ' ')
    if (wanted.length > 1) {
      for (const paragraph of paragraphs) {
        const { text, starts } = paragraph
        for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
          // The words that the match touches.
          const end = at + wanted.length
          const touched = []
          for (let word = 0; word < starts.length && starts[word] < end; word++) {
            if ((starts[word + 1] ?? text.length + 1) > at + 1) touched.push(elementsOf(paragraph)[word])
          }
          hits.push(touched)
        }
      }
      for (const found of hits) for (const element of found) element.classList.add('hit')
      if (hits.length) step(1)
    }
    tell(wanted)
  }
  function tell(wanted) {
    count.textContent = hits.length ? `${hit + 1} ${words.of} ${hits.length}` : wanted.length > 1 ? words.no_match : ''
  }
  function step(by) {
    if (!hits.length) return
    for (const element of hits[hit] ?? []) element.classList.remove('here')
    hit = (hit + by + hits.length) % hits.length
    for (const element of hits[hit]) element.classList.add('here')
    hits[hit][0]?.scrollIntoView({ block: 'center' })
    tell('  ')
  }
  let typed
  field.addEventListener('input', () => { clearTimeout(typed); typed = setTimeout(look, 120) })
  field.addEventListener('keydown', event => {
    if (event.key === 'Enter') { event.preventDefault(); step(event.shiftKey ? -1 : 1) }
    if (event.key === 'Escape') { field.value = ''; look(); field.blur() }
  })
  for (const button of findAll('[data-hit]', reader)) button.addEventListener('click', () => step(Number(button.dataset.hit)))

  function forgetHits() {
    hits = []
    hit = -1
    tell('')
  }

  find('[data-copy-text]', reader).addEventListener('click', async () => {
    const turns = []
    for (const { words: own, speaker } of paragraphs) {
      const text = joined(own)
      if (speaker && turns.at(-1)?.speaker === speaker) turns.at(-1).text += ` ${text}`
      else if (text) turns.push({ speaker, text })
    }
    const text = turns.map(({ speaker, text }) => (speaker ? `${nameOf(speaker)}: ${text}` : text)).join('\n\n')
    await navigator.clipboard.writeText(text).then(() => toast(words.copied), () => toast(words.copy_failed))
  })

  // Questions.
  const question = find('[data-ask]', reader)
  const answers = find('[data-answers]', reader)
  question.elements.prompt.addEventListener('keydown', event => {
    if (event.key === 'Enter' && !event.shiftKey) { event.preventDefault(); question.requestSubmit() }
  })
  question.addEventListener('submit', async event => {
    event.preventDefault()
    const field = question.elements.prompt
    const prompt = field.value.trim()
    const button = find('button', question)
    if (!prompt || button.disabled) return
    const stopper = new AbortController()
    const stop = make('button', words.ask_stop, { type: 'button', class: 'stop' })
    stop.addEventListener('click', () => stopper.abort())
    const entry = make('div', '', { class: 'answer', 'aria-busy': 'true' })
    const text = make('p', words.asking, { class: 'muted' })
    const tell = (said, look) => entry.append(make('p', said, { class: look }))
    entry.append(make('p', prompt, { class: 'strong' }), text, stop)
    answers.prepend(entry)
    button.disabled = true
    field.value = ''
    let draft = ''
    let result
    const show = written => { text.className = 'response'; text.textContent = written }
    try {
      const response = await respond('/data/speech-understanding', { transcript_id: id, prompt, stream: true }, {}, stopper.signal)
      for await (const event of eventsOf(response)) {
        if (event.error) throw new Error(event.error.message)
        if (event.delta !== undefined) show(draft += event.delta)
        else result = event
      }
      if (!result) throw new Error(words.answer_lost)
      // The draft may have been given up for another answer.
      show(result.response)
      tell(`${words.by} ${result.model}`, 'muted small')
    } catch (error) {
      if (!draft) text.remove()
      if (stopper.signal.aborted) tell(words.ask_stopped, 'muted small')
      else tell(error.message, 'problem')
      field.value ||= prompt
    }
    if (document.activeElement === stop) field.focus()
    stop.remove()
    entry.ariaBusy = 'false'
    button.disabled = false
  })

  const original = 'original' in reader.dataset
  const load = async () => {
    const found = await ask(`/data/transcripts/${id}/paragraphs${original ? '?original=true' : ''}`)
    forgetHits()
    showParagraphs(found.paragraphs)
    return found.version
  }
  load().then(version => {
    // A link of a search leads to its sentence.
    const start = /^#t=(\d+)$/.exec(location.hash)
    if (start) goTo(Number(start[1]), false)
    if (!original) startEditor({ id, version, reader, paragraphs, spoken, speakers, nameOf, fill, number, forgetHits, load })
  }, error => {
    place.replaceChildren(make('p', error.message, { class: 'problem' }))
    place.ariaBusy = 'false'
  })
}
