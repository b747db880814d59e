// The operator's page follows pulls to their end, of whichever node they are.
const pullPanels = [...document.querySelectorAll('[data-pull]')]

if (pullPanels.length > 0) {
  ;(async () => {
    for (;;) {
      await waitSeen(700)
      const pulls = await ask('/data/operator/pull').catch(() => undefined)
      // The service cannot be reached just now.
      if (pulls === undefined) continue
      for (const panel of pullPanels) {
        const state = pulls.find((pull) => pull.node === panel.dataset.pull)
        if (!state?.is_running) return location.reload()
        const bar = find('progress', panel)
        find('[data-state]', panel).textContent = state.text
        if (state.percent == null) bar.removeAttribute('value')
        else bar.value = state.percent
      }
    }
  })()
}
