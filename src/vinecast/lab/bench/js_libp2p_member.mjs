// A member of a gossipsub network of js-libp2p, for the comparison: it does what bench/member.py says it does.
//
// Ed25519 keys, Noise and Yamux over TCP, messages signed and checked (StrictSign), everything else as it
// comes. The parent copies this file to where npm has put the packages, and starts it there.
import { createInterface } from 'node:readline'

Promise.withResolvers ??= function () { // Node 20 does not have it
  let resolve, reject
  const promise = new Promise((a, b) => { resolve = a; reject = b })
  return { promise, resolve, reject }
}

const { createLibp2p } = await import('libp2p')
const { gossipsub } = await import('@libp2p/gossipsub')
const { identify } = await import('@libp2p/identify')
const { noise } = await import('@chainsafe/libp2p-noise')
const { tcp } = await import('@libp2p/tcp')
const { yamux } = await import('@chainsafe/libp2p-yamux')
const { multiaddr } = await import('@multiformats/multiaddr')

const TOPIC = 'bench'
const PAYLOAD_BYTES = 256
const DEGREE_LOW = 4
const LOOK_MS = 100

const host = await createLibp2p({
  addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
  transports: [tcp()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  connectionManager: { inboundConnectionThreshold: 1000 }, // a second, all from one host here; else five
  services: { identify: identify(), pubsub: gossipsub({ globalSignaturePolicy: 'StrictSign' }) }
})
const pubsub = host.services.pubsub

const say = (what) => process.stdout.write(JSON.stringify(what) + '\n')
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const now = () => performance.now() / 1000

let run = -1
let wanted = 0
let seen = new Set()

pubsub.addEventListener('message', ({ detail }) => {
  const view = new DataView(detail.data.buffer, detail.data.byteOffset)
  if (view.getUint32(0) !== run) return
  seen.add(view.getUint32(4))
  if (seen.size === wanted) {
    wanted = -1
    say({ is: 'got', run })
  }
})
pubsub.subscribe(TOPIC)

async function publish (order) {
  const begin = now()
  let sent = 0
  while (sent < order.events) {
    const elapsed = now() - begin
    if (elapsed > order.patience_s) break
    if (sent > elapsed * order.rate) {
      await sleep(1000 * (sent / order.rate - elapsed))
      continue
    }
    const payload = new Uint8Array(PAYLOAD_BYTES)
    const view = new DataView(payload.buffer)
    view.setUint32(0, order.run)
    view.setUint32(4, sent)
    await pubsub.publish(TOPIC, payload)
    sent++
  }
  return sent
}

async function obey (order) {
  switch (order.do) {
    case 'join':
      for (const peer of order.peers) await host.dial(multiaddr(peer))
      return { is: 'joined' }
    case 'ready': {
      const others = order.members - 1
      while (pubsub.getSubscribers(TOPIC).length < others ||
             pubsub.getMeshPeers(TOPIC).length < Math.min(DEGREE_LOW, others)) await sleep(LOOK_MS)
      return { is: 'ready' }
    }
    case 'expect':
      run = order.run
      wanted = order.events
      seen = new Set()
      return { is: 'expecting' }
    case 'publish':
      return { is: 'published', events: await publish(order) }
    case 'tell': {
      const cpu = process.cpuUsage()
      return { is: 'told', events: seen.size, cpu_s: (cpu.user + cpu.system) / 1e6 }
    }
  }
}

say({ is: 'up', address: host.getMultiaddrs()[0].toString() })
for await (const line of createInterface({ input: process.stdin })) say(await obey(JSON.parse(line)))
process.exit(0)
