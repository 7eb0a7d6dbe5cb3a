#!/usr/bin/python3

# Debian's python3-etcd3: JSON with a weight is put with a lease.  The library
# keeps no lease alive: the program does, and takes another one when it is lost.
# The lines are those of t/clients/command/command.go.

import json
import sys
import threading

import etcd3

TTL = 10
PAUSE = 1

host, port = sys.argv[1].split(':')
service = sys.argv[2]
client = etcd3.client(host=host, port=int(port))
lock = threading.Lock()
instances = {}


def put(address):
    instance = instances[address]
    instance['lease'] = client.lease(TTL)
    client.put(f'{service}/{address}', json.dumps(instance['value']),
               instance['lease'])


def keep():
    for address, instance in list(instances.items()):
        answers = instance['lease'].refresh()

        if not answers or answers[0].TTL == 0:
            put(address)


def keep_all():
    pause = threading.Event()

    while not pause.wait(PAUSE):
        with lock:
            try:
                keep()
            except etcd3.exceptions.Etcd3Exception as error:
                print(error, file=sys.stderr)


def register(address, *words):
    value = {'address': address}

    for word in words:
        name, text = word.split('=')
        value[name] = json.loads(text)

    instances[address] = {'value': value}
    put(address)

    return 'done'


def deregister(address):
    instances.pop(address)['lease'].revoke()

    return 'done'


def resolve():
    found = [json.loads(value) for value, _ in client.get_prefix(f'{service}/')]

    return ', '.join(sorted(f"{one['address']} {one.get('weight', 1)}"
                            for one in found if not one.get('drain')))


commands = {'register': register, 'deregister': deregister, 'resolve': resolve}

threading.Thread(target=keep_all, daemon=True).start()
print('=> ready', flush=True)

for line in sys.stdin:
    command, *words = line.split()

    with lock:
        try:
            answer = commands[command](*words)
        except Exception as error:
            answer = f'failed: {error}'

    print('=>', answer, flush=True)
