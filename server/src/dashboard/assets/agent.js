// The voice agent's tab: a conversation by a token, as any browser client has it.
const agentForm = find('[data-agent]')

if (agentForm) {
  const controls = captureControls(agentForm)
  const fields = agentForm.elements
  const conversation = find('[data-conversation]')
  const problem = find('[data-tools-problem]')
  // The caller's level above which a sound counts as speech: some 26 dB below full scale.
  const LOUD = 0.05
  let running

  /** The tools of the form. An error says what is wrong with them. */
  function toolsOf() {
    const text = fields.tools.value.trim()
    if (!text) return []
    let tools
    try { tools = JSON.parse(text) } catch (error) { throw new Error(`${words.agent_tools_json} ${error.message}`) }
    if (!Array.isArray(tools)) throw new Error(words.agent_tools_list)
    return tools
  }

  /** What the box says as the result of a tool: its JSON, or its text. */
  function resultOf() {
    const text = fields.result.value.trim()
    try { return JSON.parse(text) } catch { return text }
  }

  function checkTools() {
    let fault = ''
    try { toolsOf() } catch (error) { fault = error.message }
    problem.textContent = fault
    problem.hidden = !fault
    return !fault
  }

  const settingsOf = () => {
    const settings = { system_prompt: fields.system_prompt.value.trim(), greeting: fields.greeting.value.trim() }
    if (fields.voice.value) settings.output = { voice: fields.voice.value }
    try {
      const tools = toolsOf()
      if (tools.length) settings.tools = tools
    } catch { /* The form says what is wrong with them. */ }
    return settings
  }
  showCode(agentForm, AGENT_CODE, () => [agentForm.dataset.api, settingsOf(), resultOf()])

  const followEnd = () => { conversation.scrollTop = conversation.scrollHeight }

  /** A line of the conversation. */
  function line(who, name, text) {
    const item = make('li', '', { class: who })
    const spoken = make('p', text)
    item.append(make('span', name, { class: 'who-says' }), spoken)
    conversation.append(item)
    find('[data-nothing]').hidden = true
    followEnd()
    return { item, spoken }
  }
  function fact(item, text, kind) {
    item.append(make('span', text, { class: kind }))
    followEnd()
  }

  function said(session, text, done) {
    session.said ??= line('user', words.agent_you, '')
    session.said.spoken.textContent = text
    session.said.item.classList.toggle('unfinished', !done)
    if (done) session.said = null
    followEnd()
  }

  function replyOf(session, id) {
    let reply = session.replies.get(id)
    if (!reply) {
      reply = line('agent', words.agent_agent, '…')
      session.replies.set(id, reply)
    }
    return reply
  }

  /** Plays a piece after those before it, and tells when it is heard. */
  function play(session, data) {
    const bytes = Uint8Array.from(atob(data), one => one.charCodeAt(0))
    const pcm = new Int16Array(bytes.buffer, 0, bytes.length >> 1)
    if (!pcm.length) return
    const { sound, rate } = session.microphone
    const buffer = sound.createBuffer(1, pcm.length, rate)
    buffer.copyToChannel(Float32Array.from(pcm, sample => sample / 32768), 0)
    const source = sound.createBufferSource()
    source.buffer = buffer
    source.connect(sound.destination)
    const at = Math.max(session.until, sound.currentTime + 0.03)
    source.start(at)
    session.until = at + buffer.duration
    session.playing.add(source)
    source.onended = () => session.playing.delete(source)
    return performance.now() + (at - sound.currentTime + (sound.outputLatency || 0)) * 1000
  }

  function silence(session) {
    for (const source of session.playing) source.stop()
    session.playing.clear()
    session.until = 0
  }

  const send = (session, frame) => { if (session.socket?.readyState === 1) session.socket.send(JSON.stringify(frame)) }

  function hear(session) {
    const level = peak => {
      controls.level(peak)
      if (peak > LOUD) session.since = performance.now()
    }
    session.microphone.listen(level, pcm => {
      send(session, { type: 'input.audio', audio: btoa(String.fromCharCode(...new Uint8Array(pcm.buffer))) })
    })
  }

  const FRAMES = {
    'session.ready': session => {
      session.ready = true
      session.since = performance.now()
      controls.startClock()
      controls.say(words.agent_listens)
      hear(session)
    },
    'session.updated': () => toast(words.agent_updated),
    'session.error': (session, { message }) => {
      if (!session.ready) {
        session.refused = message
        return stop(session)
      }
      line('fault', words.agent_fault, message)
    },
    'input.speech.started': session => {
      // A sound of long ago says nothing of this turn.
      if (performance.now() - session.since > 2000) session.since = null
      controls.say(words.agent_hears)
    },
    'input.speech.stopped': session => {
      session.since ??= performance.now()
      controls.say(words.agent_listens)
    },
    'transcript.user.delta': (session, { text }) => said(session, text, false),
    'transcript.user': (session, { text }) => {
      said(session, text, true)
      controls.say(words.agent_thinks)
    },
    'reply.started': (session, { reply_id }) => {
      replyOf(session, reply_id)
      controls.say(words.agent_speaks)
    },
    'reply.audio': (session, { reply_id, data }) => {
      const heard = play(session, data)
      const reply = replyOf(session, reply_id)
      if (reply.heard || heard == null) return
      reply.heard = true
      if (session.since == null) return
      const text = `${words.agent_first_sound} ${Math.round(heard - session.since)} ${words.milliseconds}`
      fact(reply.item, text, 'muted small first-sound')
      find('[data-latency]').textContent = text
      session.since = null
    },
    'transcript.agent': (session, { reply_id, text }) => {
      replyOf(session, reply_id).spoken.textContent = text
      followEnd()
    },
    'reply.done': (session, { reply_id, status }) => {
      const reply = replyOf(session, reply_id)
      if (status === 'interrupted') {
        silence(session)
        reply.item.classList.add('interrupted')
        fact(reply.item, words.agent_interrupted, 'badge queued')
      }
      // It was stopped before a word was heard.
      if (reply.spoken.textContent === '…') reply.spoken.textContent = ''
      controls.say(words.agent_listens)
    },
    'tool.call': (session, { call_id, name, arguments: args }) => {
      const result = JSON.stringify(resultOf())
      send(session, { type: 'tool.result', call_id, result })
      session.since ??= performance.now()
      const { item } = line('tool', words.agent_tool, name)
      item.append(make('pre', json(args, 2), { class: 'code', tabindex: 0, 'aria-label': words.agent_arguments }))
      item.append(make('span', words.agent_answered, { class: 'muted small' }))
      item.append(make('pre', result, { class: 'code', tabindex: 0, 'aria-label': words.agent_answered }))
      followEnd()
    },
    'session.ended': session => { session.done = true },
  }

  function end(session, text) {
    if (running !== session) return
    running = null
    silence(session)
    session.microphone?.close()
    if (session.socket && session.socket.readyState <= 1) session.socket.close(1000)
    controls.end(text)
  }

  function stop(session) {
    controls.ending()
    session.stopping = true
    session.microphone?.mute()
    silence(session)
    if (session.socket?.readyState === 1) send(session, { type: 'session.end' })
    else end(session, session.refused ?? words.agent_ended)
  }

  async function start() {
    if (!checkTools()) {
      find('[data-tools]').open = true
      return fields.tools.focus()
    }
    const session = running = { replies: new Map(), playing: new Set(), until: 0 }
    controls.begin(words.agent_hang_up)
    try {
      const microphone = await openMicrophone(agentForm, () => {
        if (running === session && !session.stopping) { stop(session); toast(words.live_unplugged) }
      }, { echoCancellation: true, noiseSuppression: true })
      if (running !== session) return microphone.close()
      session.microphone = microphone
      controls.listDevices()
      controls.say(words.live_connecting)
      const minted = await ask('/data/voice-agent/token', {})
      if (running === session) connect(session, minted)
    } catch (error) {
      end(session, error.message)
    }
  }

  function connect(session, minted) {
    const url = new URL(minted.websocket_url)
    url.searchParams.set('token', minted.token)
    const socket = session.socket = new WebSocket(url)
    const format = { encoding: 'audio/pcm', sample_rate: session.microphone.rate }
    const settings = settingsOf()
    settings.input = { format }
    settings.output = { ...settings.output, format }
    socket.onopen = () => send(session, { type: 'session.update', session: settings })
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(data)
      FRAMES[frame.type]?.(session, frame)
    }
    socket.onclose = ({ reason }) => {
      end(session, session.refused ?? (reason || (session.done ? words.agent_ended : words.agent_lost)))
    }
  }

  controls.button.addEventListener('click', () => { if (running) stop(running); else start() })
  fields.tools.addEventListener('input', checkTools)
  agentForm.addEventListener('change', ({ target }) => {
    if (!running?.ready || running.stopping || !['system_prompt', 'tools'].includes(target.name) || !checkTools()) return
    send(running, { type: 'session.update', session: { system_prompt: fields.system_prompt.value.trim(), tools: toolsOf() } })
  })
}
