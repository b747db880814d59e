// Sends the microphone's samples to the page as PCM16, with their peak.
registerProcessor('pcm', class extends AudioWorkletProcessor {
  process([[samples]]) {
    if (samples) {
      const pcm = new Int16Array(samples.length)
      let peak = 0
      for (let at = 0; at < samples.length; at++) {
        const sample = Math.max(-1, Math.min(1, samples[at]))
        pcm[at] = sample * 32767
        peak = Math.max(peak, Math.abs(sample))
      }
      this.port.postMessage({ pcm, peak }, [pcm.buffer])
    }
    return true
  }
})
