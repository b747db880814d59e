// The operator's page follows a pull to its end.
const pullPanel = find('[data-pull]')

if (pullPanel) {
  const bar = find('progress', pullPanel)
  ;(async () => {
    for (;;) {
      await wait(700)
      const state = await ask('/data/operator/pull').catch(() => undefined)
      // The service cannot be reached just now.
      if (state === undefined) continue
      if (!state?.is_running) return location.reload()
      find('[data-state]', pullPanel).textContent = state.text
      if (state.percent == null) bar.removeAttribute('value')
      else bar.value = state.percent
    }
  })()
}
