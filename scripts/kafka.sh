#!/usr/bin/env bash
# A real Apache Kafka for tests: KRaft, on this machine only, thrown away at the end. One broker, or three.
#
#   scripts/kafka.sh start            start one, print KVSET_TEST_BROKERS=host:port on standard output
#   scripts/kafka.sh stop             stop it and delete its data
#   scripts/kafka.sh restart [--kill] stop it, or kill it without warning, and start it again on the same
#                                     port, data kept
#   scripts/kafka.sh run -- CMD...    run CMD with KVSET_TEST_BROKERS set; exit with its status
#
# What runs under `run` finds this script's path in KVSET_TEST_BROKER_CONTROL, if it may restart the broker.
#
# Where the broker comes from, in this order:
#   1. KVSET_TEST_BROKERS, when set: that broker is used and never stopped
#   2. docker compose, where an engine answers (KVSET_KAFKA_FROM=maven skips it)
#   3. Maven artifacts (needs java 17 or later and mvn), kept in target/kafka
#
# With KVSET_KAFKA_SECURED=1 the broker from Maven also listens where clients must authenticate, and the
# lines KVSET_TEST_SASL=host:port (SASL_PLAINTEXT), KVSET_TEST_SASL_SSL=host:port and KVSET_TEST_CA=file
# are printed, or set for CMD, too. Mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER (unsecured
# tokens); user kvset, password kvset-password.
#
# With KVSET_KAFKA_NODES=3 three brokers from Maven, each a controller too, keep three copies of everything and
# confirm what two have. Each can be disturbed by itself:
#
#   scripts/kafka.sh node N kill      kill it without warning
#   scripts/kafka.sh node N stall S   let it stand still for S seconds
#   scripts/kafka.sh node N cut       cut it off from everybody; `mend` ends it (as root)
#   scripts/kafka.sh node N fill      fill its disk and wait until it gives up; `clear` ends it (as root, N=3)
#   scripts/kafka.sh node N start     start it again, if it does not run
#
# KVSET_TEST_NODES and KVSET_TEST_NODE_FAULTS then say how many there are and what can be done to them.
#
# KVSET_KAFKA_DIR moves target/kafka; KVSET_KAFKA_HEAP sets the heap of a broker (512m).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
dir=${KVSET_KAFKA_DIR:-$root/target/kafka}
heap=${KVSET_KAFKA_HEAP:-512m}
properties=$dir/server.properties
log=$dir/broker.log
pid_file=$dir/broker.pid
brokers_file=$dir/brokers
secured_file=$dir/secured
secured=${KVSET_KAFKA_SECURED:-}
nodes=${KVSET_KAFKA_NODES:-1}
# What a broker's process is started by.
network=()
compose_brokers=127.0.0.1:9092
ready_seconds=90
stop_seconds=30

say() { printf 'kafka.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

engine_answers() {
    [ "$nodes" = 1 ] && [ "${KVSET_KAFKA_FROM:-}" != maven ] && command -v docker >/dev/null &&
        timeout 10 docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1
}

compose() { docker compose --project-directory "$root" --file "$root/docker-compose.yml" "$@" >&2; }

# The recorded process, if it still is our broker and not a later process that got its number.
broker_pid() {
    local pid
    pid=$(cat "$pid_file" 2>/dev/null) || return 1
    [ -n "$pid" ] && ps -o args= -p "$pid" 2>/dev/null | grep -qF -- "$properties" && printf '%s' "$pid"
}

free_port() {
    local port
    for _ in $(seq 100); do
        # Below the range the kernel hands out by itself, so no client's own socket takes it meanwhile.
        port=$((20000 + RANDOM % 12000))
        if [ "$port" != "${1:-}" ] && ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            printf '%s' "$port"
            return
        fi
    done
    die "found no free port between 20000 and 32000"
}

fetch_jars() {
    local jars=$dir/libs
    [ -e "$jars/.complete" ] && [ "$jars/.complete" -nt "$here/kafka/pom.xml" ] && return
    command -v java >/dev/null || die "java not found: install a JDK 17+, or set KVSET_TEST_BROKERS"
    command -v mvn >/dev/null || die "mvn not found: install Maven, or set KVSET_TEST_BROKERS"
    say "fetching Apache Kafka with Maven"
    rm -rf "$jars"
    mvn -q -B -f "$here/kafka/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$jars" >&2 || die "mvn could not fetch Apache Kafka"
    touch "$jars/.complete"
}

# What does not depend on where a broker is: so many copies, confirmed by so many.
common_properties() {
    cat <<END
auto.create.topics.enable=false
log.retention.ms=-1
group.initial.rebalance.delay.ms=0
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=500
default.replication.factor=$1
min.insync.replicas=$2
offsets.topic.num.partitions=4
offsets.topic.replication.factor=$1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=$1
transaction.state.log.min.isr=$2
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=$1
share.coordinator.state.topic.min.isr=$2
END
}

write_properties() {
    local port controller
    port=$(free_port)
    controller=$(free_port "$port")
    cat >"$properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$dir/data
END
    common_properties 1 1 >>"$properties"
    printf '127.0.0.1:%s' "$port" >"$brokers_file"
    if [ -n "$secured" ]; then secure "$port" "$controller"; fi
}

# Adds the listeners for clients that authenticate. Nothing here is a secret: the broker is on loopback and
# lives as long as a test.
secure() {
    local sasl ssl mechanism lower name login=org.apache.kafka.common.security
    command -v keytool >/dev/null || die "keytool not found: install a whole JDK 17+"
    sasl=$(free_port "$1")
    ssl=$(free_port "$sasl")
    rm -f "$dir/broker.p12" "$dir/ca.pem"
    keytool -genkeypair -alias broker -keyalg RSA -keysize 2048 -validity 30 -dname CN=localhost \
        -ext san=ip:127.0.0.1,dns:localhost -ext bc=ca:true -storetype PKCS12 \
        -keystore "$dir/broker.p12" -storepass kvset-keystore >>"$log" 2>&1 || die "keytool failed, see $log"
    keytool -exportcert -rfc -alias broker -keystore "$dir/broker.p12" -storepass kvset-keystore \
        -file "$dir/ca.pem" >>"$log" 2>&1 || die "keytool failed, see $log"
    sed -i -e "s|^listeners=.*|&,SASL://127.0.0.1:$sasl,SECURE://127.0.0.1:$ssl|" \
        -e "s|^advertised.listeners=.*|&,SASL://127.0.0.1:$sasl,SECURE://127.0.0.1:$ssl|" \
        -e "s|^listener.security.protocol.map=.*|&,SASL:SASL_PLAINTEXT,SECURE:SASL_SSL|" "$properties"
    cat >>"$properties" <<END
inter.broker.listener.name=PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
ssl.keystore.type=PKCS12
ssl.keystore.location=$dir/broker.p12
ssl.keystore.password=kvset-keystore
END
    for name in sasl secure; do
        for mechanism in SCRAM-SHA-256 SCRAM-SHA-512; do
            lower=$(printf '%s' "$mechanism" | tr '[:upper:]' '[:lower:]')
            printf 'listener.name.%s.%s.sasl.jaas.config=%s.scram.ScramLoginModule required;\n' \
                "$name" "$lower" "$login" >>"$properties"
        done
        printf 'listener.name.%s.plain.sasl.jaas.config=%s.plain.PlainLoginModule required %s;\n' \
            "$name" "$login" 'user_kvset="kvset-password"' >>"$properties"
        printf 'listener.name.%s.oauthbearer.sasl.jaas.config=%s.oauthbearer.OAuthBearerLoginModule required %s;\n' \
            "$name" "$login" 'unsecuredLoginStringClaim_sub="broker"' >>"$properties"
    done
    printf 'KVSET_TEST_SASL=127.0.0.1:%s\nKVSET_TEST_SASL_SSL=127.0.0.1:%s\nKVSET_TEST_CA=%s\n' \
        "$sasl" "$ssl" "$dir/ca.pem" >"$secured_file"
}

kafka_tool() {
    java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$dir/libs/*" "$@"
}

# Topics that begin with `readable.` may be read by the user that clients log in as, and not be written to; topics and
# groups that begin with `forbidden.` are not for that user at all.
forbid() {
    kafka_tool org.apache.kafka.tools.AclCommand --bootstrap-server "$(cat "$brokers_file")" --add \
        --allow-principal User:kvset --operation Read --operation Describe \
        --topic readable. --resource-pattern-type prefixed >>"$log" 2>&1 &&
        kafka_tool org.apache.kafka.tools.AclCommand --bootstrap-server "$(cat "$brokers_file")" --add \
            --deny-principal User:kvset --operation All --topic forbidden. --group forbidden. \
            --resource-pattern-type prefixed >>"$log" 2>&1 ||
        die "could not set the broker's access control list, see $log"
}

format_storage() {
    local cluster scram=()
    rm -rf "$dir/data"
    if [ -n "$secured" ]; then
        scram=(--add-scram "SCRAM-SHA-256=[name=kvset,password=kvset-password]"
            --add-scram "SCRAM-SHA-512=[name=kvset,password=kvset-password]")
    fi
    cluster=$(kafka_tool kafka.tools.StorageTool random-uuid 2>>"$log")
    kafka_tool kafka.tools.StorageTool format --standalone -t "$cluster" -c "$properties" \
        "${scram[@]}" >>"$log" 2>&1 ||
        die "could not format the broker's storage, see $log"
}

# Starts the broker's process; `await_started` waits for it, given how long the log was before.
spawn() {
    # A session of its own, so that a Ctrl-C meant for the tests does not take the broker down first.
    setsid "${network[@]}" java "-Xmx$heap" -Xms128m -XX:+UseSerialGC -Djava.awt.headless=true \
        -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.defaultLogLevel=info \
        -cp "$dir/libs/*" kafka.Kafka "$properties" >>"$log" 2>&1 </dev/null &
    printf '%s' "$!" >"$pid_file"
}

await_started() {
    local mark=$1 pid
    pid=$(cat "$pid_file")
    for _ in $(seq $((ready_seconds * 5))); do
        # Not a pipe: grep ends at the first match, and a tail that cannot go on would make the pipe fail.
        grep -q 'Kafka Server started' <(tail -n "+$((mark + 1))" "$log") && return
        kill -0 "$pid" 2>/dev/null || die "the broker stopped while starting, see $log"
        sleep 0.2
    done
    kill "$pid"
    die "the broker was not ready within $ready_seconds s, see $log"
}

launch() {
    local mark
    mark=$(wc -l <"$log")
    spawn
    await_started "$mark"
}

halt() {
    local pid
    pid=$(broker_pid) || { rm -f "$pid_file"; return 0; }
    if [ "${1:-}" = --kill ]; then kill -9 "$pid"; else kill "$pid"; fi
    for _ in $(seq $((stop_seconds * 5))); do
        kill -0 "$pid" 2>/dev/null || { rm -f "$pid_file"; return 0; }
        sleep 0.2
    done
    say "the broker ignored SIGTERM for $stop_seconds s: killing it"
    kill -9 "$pid"
    rm -f "$pid_file"
}

start() {
    if [ -n "${KVSET_TEST_BROKERS:-}" ]; then
        say "using the broker named by KVSET_TEST_BROKERS"
        printf 'KVSET_TEST_BROKERS=%s\n' "$KVSET_TEST_BROKERS"
    elif engine_answers; then
        compose up --detach --wait kafka
        printf 'KVSET_TEST_BROKERS=%s\n' "$compose_brokers"
    else
        mkdir -p "$dir"
        start_here
    fi
}

# Whether what `start_here` starts runs already.
is_up() { broker_pid >/dev/null; }

start_here() {
    if ! is_up; then
        fetch_jars
        : >"$log"
        write_properties
        format_storage
        launch
        if [ -n "$secured" ]; then forbid; fi
        say "broker $(cat "$brokers_file") is up (log: $log)"
    fi
    printf 'KVSET_TEST_BROKERS=%s\n' "$(cat "$brokers_file")"
    if [ -n "$secured" ]; then cat "$secured_file"; fi
}

stop_here() {
    halt
    rm -rf "$dir/data" "$brokers_file" "$secured_file"
}

stop() {
    if [ -n "${KVSET_TEST_BROKERS:-}" ]; then
        say "leaving the broker named by KVSET_TEST_BROKERS alone"
    elif engine_answers; then
        compose down --volumes
    else
        stop_here
    fi
}

# Whether KVSET_TEST_BROKERS, when set, names a broker that this script started.
is_ours() {
    case "${KVSET_TEST_BROKERS:-}" in
        '') return 0 ;;
        "$compose_brokers") engine_answers ;;
        *) [ "$KVSET_TEST_BROKERS" = "$(cat "$brokers_file" 2>/dev/null)" ] ;;
    esac
}

restart() {
    [ "$nodes" = 1 ] || die "of several brokers one is restarted: scripts/kafka.sh node N kill, then start"
    is_ours || die "cannot restart the broker named by KVSET_TEST_BROKERS"
    case "${1:-}" in
        '' | --kill) ;;
        *) die "restart takes --kill or nothing, not '$1'" ;;
    esac
    if engine_answers; then
        if [ "${1:-}" = --kill ]; then compose kill kafka; else compose stop kafka; fi
        compose up --detach --wait kafka
        printf 'KVSET_TEST_BROKERS=%s\n' "$compose_brokers"
    else
        [ -e "$brokers_file" ] || die "no broker to restart: scripts/kafka.sh start"
        halt "${1:-}"
        launch
        printf 'KVSET_TEST_BROKERS=%s\n' "$(cat "$brokers_file")"
    fi
}

run() {
    [ "${1:-}" = -- ] && shift
    [ $# -gt 0 ] || die "run takes a command: scripts/kafka.sh run -- cargo test"
    local lines ours=yes control=
    # Whoever started the broker stops it: one found running is used and left as it was.
    if [ -n "${KVSET_TEST_BROKERS:-}" ] || is_up; then ours=no; fi
    mapfile -t lines < <(start)
    [ "$ours" = no ] || trap stop EXIT
    [ "${#lines[@]}" -gt 0 ] || die "no broker"
    if is_ours; then control=$here/kafka.sh; fi
    env "${lines[@]}" KVSET_TEST_BROKER_CONTROL="$control" KVSET_REQUIRE_BROKER=1 "$@"
}

if [ "$nodes" != 1 ]; then
    # shellcheck source=scripts/kafka/cluster.sh
    . "$here/kafka/cluster.sh"
fi

case "${1:-}" in
    start) start ;;
    stop) stop ;;
    restart) shift; restart "$@" ;;
    run) shift; run "$@" ;;
    node) shift; [ "$nodes" != 1 ] || die "one broker has no nodes: set KVSET_KAFKA_NODES=3"; node "$@" ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
