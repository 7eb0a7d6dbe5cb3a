// npm's etcd3: the address is put with a lease, which the library keeps alive.
// The lines are those of t/clients/command/command.go; there are no weights.

const { Etcd3 } = require('etcd3');
const readline = require('readline');

const [etcd, service] = process.argv.slice(2);
const client = new Etcd3({ hosts: etcd });
const leases = new Map();

const TTL = 10;

async function register(address) {
    const lease = client.lease(TTL);

    leases.set(address, lease);

    lease.on('lost', () => {
        if (leases.get(address) === lease) {
            again(address);
        }
    });

    await lease.put(`${service}/${address}`).value(address);
}

function again(address) {
    register(address).catch(() => setTimeout(again, 1000, address));
}

async function deregister(address) {
    const lease = leases.get(address);

    leases.delete(address);
    await lease.revoke();
}

async function resolve() {
    const found = await client.getAll().prefix(`${service}/`).strings();

    return Object.values(found).sort().map((at) => `${at} 1`).join(', ');
}

async function obey([command, address]) {
    switch (command) {
    case 'register':
        await register(address);
        return 'done';

    case 'deregister':
        await deregister(address);
        return 'done';

    case 'resolve':
        return resolve();
    }

    return `failed: no such command: ${command}`;
}

async function main() {
    console.log('=> ready');

    for await (const line of readline.createInterface(process.stdin)) {
        const answer = await obey(line.split(' '))
            .catch((error) => `failed: ${error.message}`);

        console.log('=>', answer);
    }

    process.exit(0);
}

main();
