#!/bin/sh
# acme.sh NAME ...: renews certificates in etcd, if the nginx of this machine
# leads (see acme.conf).  It needs certbot or lego, etcdctl, curl and openssl.
#
#     ACME_LEADS=http://127.0.0.1:8081/leads    200: this nginx leads
#     ACME_HTTP=http://127.0.0.1                it answers challenges
#     ACME_DAYS=30          renew a certificate that ends within so many days
#     ACME_DIR=/var/lib/acme                    of certbot or lego
#     ACME_CERTBOT=         more arguments of certbot, as "-m ADDRESS"
#     ACME_LEGO=            use lego, with these arguments, as "-m ADDRESS"
#     ACME_LISTEN=:8402     where lego answers challenges, "value=" in acme.conf
#
# etcdctl reads ETCDCTL_ENDPOINTS and the like, certbot runs this script again.
set -eu
umask 077
export ETCDCTL_API=3

: "${ACME_LEADS:=http://127.0.0.1:8081/leads}" "${ACME_HTTP:=http://127.0.0.1}"
: "${ACME_DAYS:=30}" "${ACME_DIR:=/var/lib/acme}" "${ACME_LISTEN:=:8402}"

leads() { curl -fsS -o /dev/null "$ACME_LEADS" 2>/dev/null; }
lines() { awk '{ printf "%s\\n", $0 }' "$1"; }

by_certbot() {
    crt=$ACME_DIR/live/$1/fullchain.pem pem=$ACME_DIR/live/$1/privkey.pem
    certbot certonly -q --non-interactive --agree-tos --force-renewal \
        --config-dir "$ACME_DIR" --work-dir "$ACME_DIR" --logs-dir "$ACME_DIR" \
        --manual --preferred-challenges http --manual-auth-hook "$0 --prove" \
        --cert-name "$1" -d "$1" ${ACME_CERTBOT:-}
}

by_lego() {     # which also says what went well
    crt=$ACME_DIR/certificates/$1.crt pem=$ACME_DIR/certificates/$1.key
    said=$(lego --path "$ACME_DIR" --accept-tos --http \
           --http.port "$ACME_LISTEN" -d "$1" $ACME_LEGO run 2>&1) && return
    echo "$said" >&2
    return 1
}

case ${1:-} in
--prove)    # for certbot: the proof goes away by itself
    lease=$(etcdctl lease grant 600 | cut -d ' ' -f 2)
    etcdctl put --lease="$lease" -- "/acme/$CERTBOT_TOKEN" \
        "$CERTBOT_VALIDATION" >/dev/null
    n=0
    until curl -fs "$ACME_HTTP/.well-known/acme-challenge/$CERTBOT_TOKEN" \
          | grep -qxF "$CERTBOT_VALIDATION"; do
        n=$((n + 1)); [ "$n" -le 100 ] || exit 1
        sleep 0.1
    done
    exit ;;
esac

for name; do
    leads || exit 0
    key=/certs/$name

    if etcdctl get --print-value-only -- "$key/crt" \
       | openssl x509 -noout -checkend $((ACME_DAYS * 86400)) >/dev/null 2>&1
    then
        continue
    fi

    if [ -n "${ACME_LEGO:-}" ]; then
        by_lego "$name" || continue
    else
        by_certbot "$name" || continue
    fi

    # another nginx may lead by now, and have renewed the certificate
    leads || exit 0
    printf '\nput -- %s "%s"\nput -- %s "%s"\n\n\n' \
        "$key/crt" "$(lines "$crt")" "$key/key" "$(lines "$pem")" \
        | etcdctl txn >/dev/null
done
