// The tabs with a microphone share its devices, its level, the clock and its samples.

/** The controls of such a tab. */
function captureControls(form) {
  const button = find('[data-talk]', form)
  const label = find('span', button)
  const idle = label.textContent
  const meter = find('meter', form)
  const state = find('[data-state]', form)
  let timer

  async function listDevices() {
    const select = form.elements.device
    const devices = (await navigator.mediaDevices?.enumerateDevices?.() ?? []).filter(one => one.kind === 'audioinput' && one.label)
    if (!devices.length) return
    const before = select.value
    while (select.options.length > 1) select.options[1].remove()
    for (const { deviceId, label } of devices) if (deviceId !== 'default') select.append(make('option', label, { value: deviceId }))
    select.value = before
    if (select.selectedIndex < 0) select.value = ''
  }
  navigator.mediaDevices?.addEventListener?.('devicechange', listDevices)
  listDevices()

  return {
    button,
    listDevices,
    say(text) { state.textContent = text },
    begin(stop) {
      label.textContent = stop
      button.classList.add('on')
      state.textContent = words.live_asking
    },
    startClock() {
      const began = performance.now()
      timer = setInterval(() => { find('[data-clock]', form).textContent = clockOf(performance.now() - began) }, 250)
    },
    level(peak) { meter.value = Math.max(meter.value * 0.92, Math.min(100, peak * 120)) },
    ending() {
      state.textContent = words.live_ending
      button.disabled = true
    },
    end(text) {
      clearInterval(timer)
      state.textContent = text
      meter.value = 0
      label.textContent = idle
      button.classList.remove('on')
      button.disabled = false
    },
  }
}

/** Opens the microphone that a form has chosen. `unplugged` is called when it goes. An error says what to do. */
async function openMicrophone(form, unplugged, processing = {}) {
  if (!navigator.mediaDevices) throw new Error(words.live_insecure)
  const device = form.elements.device.value
  let stream
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: { ...processing, ...(device && { deviceId: { exact: device } }) } })
  } catch (error) {
    throw new Error(error.name === 'NotAllowedError' ? words.live_refused : words.live_no_device)
  }
  let sound
  const mute = () => { for (const track of stream.getTracks()) track.stop() }
  const close = () => {
    mute()
    sound?.close().catch(() => {})
  }
  try {
    stream.getAudioTracks()[0].addEventListener('ended', unplugged)
    sound = new AudioContext()
    if (sound.sampleRate > 48000) {
      await sound.close()
      sound = new AudioContext({ sampleRate: 48000 })
    }
    await sound.audioWorklet.addModule(form.dataset.worklet)
  } catch (error) {
    close()
    throw error
  }
  return {
    sound,
    rate: sound.sampleRate,
    mute,
    close,
    /** Gives each peak to `level`, and PCM16 to `take`, in pieces of 50 ms. */
    listen(level, take) {
      const pcm = new AudioWorkletNode(sound, 'pcm')
      let waiting = []
      let size = 0
      pcm.port.onmessage = ({ data: { pcm: part, peak } }) => {
        level(peak)
        waiting.push(part)
        size += part.length
        if (size < sound.sampleRate / 20) return
        const all = new Int16Array(size)
        let at = 0
        for (const one of waiting) { all.set(one, at); at += one.length }
        waiting = []
        size = 0
        take(all)
      }
      sound.createMediaStreamSource(stream).connect(pcm)
      sound.resume()
    },
  }
}
