// Search in pages opened from the disk, where browsers start no workers: a hidden frame runs the worker's script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.body.appendChild(document.createElement("iframe"))
      frame.hidden = true
      const inner = (this.inner = frame.contentWindow)
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inner.importScripts = (...urls) => Promise.all(urls.map(each => this.load(each)))
      this.ready = this.load(url)
    }

    load(url) {
      return new Promise((done, failed) => {
        const script = this.inner.document.createElement("script")
        Object.assign(script, { src: url, onload: done, onerror: failed })
        this.inner.document.body.appendChild(script)
      })
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.inner.frameElement.remove()
    }
  }
}
