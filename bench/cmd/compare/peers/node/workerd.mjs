// workerd runs Cloudflare's workers on this machine.
import {build} from 'esbuild'
import {Miniflare} from 'miniflare'

// workerd runs a worker that can load other ones. more are further options of Miniflare.
export async function workerd(source, more = {}) {
  const bundled = await build({
    stdin: {contents: source, resolveDir: import.meta.dirname},
    bundle: true, write: false, format: 'esm',
    external: ['cloudflare:*', 'node:*'], conditions: ['workerd', 'worker', 'import'],
  })
  const mf = new Miniflare({
    modules: true, script: bundled.outputFiles[0].text, workerLoaders: {LOADER: {}},
    compatibilityDate: '2026-07-01', compatibilityFlags: ['nodejs_compat'], ...more,
  })
  await mf.ready
  return mf
}
