# Three brokers, each a controller too, so that any one of them may fail: two keep the quorum of controllers and the
# two copies that a write needs. Read by scripts/kafka.sh, whose functions it uses and in part replaces.
#
# As root each broker gets a network namespace of its own behind one bridge, so that one can be cut off from clients
# and brokers alike, and the last one's data lie in a file system of their own, which can be full. The addresses are of
# 198.18.0.0/15, which is set aside for tests of networks (RFC 2544). Without root they are all on loopback, and these
# two faults cannot be had.

[ "$nodes" = 3 ] || die "KVSET_KAFKA_NODES is 1 or 3, not '$nodes'"
[ -z "$secured" ] || die "KVSET_KAFKA_SECURED=1 is for one broker: leave KVSET_KAFKA_NODES out"

cluster=$dir/cluster
brokers_file=$cluster/brokers
net_file=$cluster/net
# Most bytes of the last broker's data, in tmpfs, which takes only what is written.
disk_size=1g
give_up_seconds=60

# Sets what the functions about one broker go by.
use_node() {
    node=$1
    properties=$cluster/$node/server.properties
    log=$cluster/$node/broker.log
    pid_file=$cluster/$node/broker.pid
    data=$cluster/$node/data
    network=()
    if [ -e "$net_file" ]; then
        net=$(cat "$net_file")
        network=(ip netns exec "kvset-$net-$node")
    fi
}

each_node() {
    local each
    for each in 1 2 3; do
        use_node "$each"
        "$@"
    done
}

is_up() {
    local each
    for each in 1 2 3; do
        use_node "$each"
        if broker_pid >/dev/null; then return 0; fi
    done
    return 1
}

# Whether a namespace, a bridge and a file system can be made here.
can_isolate() {
    [ "$(id -u)" = 0 ] && command -v ip >/dev/null && [ "${KVSET_KAFKA_NETWORK:-}" != loopback ] &&
        ip netns add kvset-try 2>/dev/null && ip netns del kvset-try &&
        ip link add kvset-try type bridge 2>/dev/null && ip link del kvset-try
}

make_network() {
    local number
    for _ in $(seq 50); do
        number=$((RANDOM % 250))
        if ip link add "kvset$number" type bridge 2>/dev/null; then
            printf '%s' "$number" >"$net_file"
            ip addr add "198.18.$number.254/24" dev "kvset$number"
            ip link set "kvset$number" up
            each_node make_namespace
            return
        fi
    done
    die "found no free network of 198.18.0.0/16"
}

make_namespace() {
    local name=kvset-$net-$node host=kvs$net-$node
    ip netns add "$name"
    ip link add "$host" type veth peer name eth0 netns "$name"
    ip link set "$host" master "kvset$net" up
    ip -n "$name" addr add "198.18.$net.$node/24" dev eth0
    ip -n "$name" link set lo up
    ip -n "$name" link set eth0 up
}

drop_namespace() { ip netns del "kvset-$net-$node" 2>/dev/null || true; }

make_disk() {
    mkdir -p "$data"
    if [ -e "$net_file" ] && [ "$node" = 3 ]; then
        mount -t tmpfs -o "size=$disk_size" kvset-disk "$data" 2>/dev/null ||
            say "no file system of its own for broker 3"
    fi
}

drop_disk() { if mountpoint -q "$data" 2>/dev/null; then umount "$data"; fi; }

choose_addresses() {
    local each ports=() port=
    for each in 0 1 2 3 4 5; do
        port=$(free_port "$port")
        ports[each]=$port
    done
    for each in 1 2 3; do
        if [ -e "$net_file" ]; then
            clients[each]=198.18.$net.$each:9092
            controllers[each]=198.18.$net.$each:9093
        else
            clients[each]=127.0.0.1:${ports[each * 2 - 2]}
            controllers[each]=127.0.0.1:${ports[each * 2 - 1]}
        fi
    done
    printf '%s,%s,%s' "${clients[@]}" >"$brokers_file"
}

write_node_properties() {
    mkdir -p "$cluster/$node"
    : >"$log"
    cat >"$properties" <<END
process.roles=broker,controller
node.id=$node
controller.quorum.voters=1@${controllers[1]},2@${controllers[2]},3@${controllers[3]}
listeners=PLAINTEXT://${clients[node]},CONTROLLER://${controllers[node]}
advertised.listeners=PLAINTEXT://${clients[node]}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$data
broker.session.timeout.ms=5000
broker.heartbeat.interval.ms=1000
replica.lag.time.max.ms=5000
log.cleaner.dedupe.buffer.size=16777216
END
    common_properties 3 2 >>"$properties"
}

format_node() {
    kafka_tool kafka.tools.StorageTool format -t "$cluster_id" -c "$properties" >>"$log" 2>&1 ||
        die "could not format the broker's storage, see $log"
}

start_here() {
    local clients=() controllers=() cluster_id faults=kill,stall
    if ! is_up; then
        fetch_jars
        stop_here
        mkdir -p "$cluster"
        if can_isolate; then make_network; fi
        choose_addresses
        each_node write_node_properties
        each_node make_disk
        cluster_id=$(kafka_tool kafka.tools.StorageTool random-uuid 2>/dev/null)
        each_node format_node
        each_node spawn
        each_node await_started 0
        say "brokers $(cat "$brokers_file") are up (logs: $cluster/*/broker.log)"
    fi
    if [ -e "$net_file" ]; then faults+=,cut; fi
    use_node 3
    if mountpoint -q "$data"; then faults+=,fill; fi
    printf 'KVSET_TEST_BROKERS=%s\nKVSET_TEST_NODES=3\nKVSET_TEST_NODE_FAULTS=%s\n' "$(cat "$brokers_file")" "$faults"
}

stop_here() {
    # One that stands still would not see what it is asked.
    each_node wake
    each_node halt --kill
    each_node drop_disk
    if [ -e "$net_file" ]; then
        net=$(cat "$net_file")
        each_node drop_namespace
        ip link del "kvset$net" 2>/dev/null || true
    fi
    rm -rf "$cluster"
}

wake() {
    local pid
    if pid=$(broker_pid); then kill -CONT "$pid"; fi
}

stall() {
    local pid
    pid=$(broker_pid) || die "broker $node does not run"
    kill -STOP "$pid"
    sleep "$1"
    kill -CONT "$pid"
}

link() {
    [ "${#network[@]}" -gt 0 ] || die "broker $node has no network of its own: this needs root and iproute2"
    ip link set "kvs$net-$node" "$1"
}

# Leaves no room but for what lies there, and waits until the broker finds out and gives up, as Kafka does.
fill() {
    local pid used
    mountpoint -q "$data" || die "broker $node has no disk of its own: that is broker 3, as root"
    pid=$(broker_pid) || die "broker $node does not run"
    # What is written meanwhile makes the new size too small.
    for _ in $(seq 20); do
        used=$(df --output=used -B 4096 "$data" | tail -1)
        if mount -o "remount,size=$(((used + 16) * 4096))" "$data" 2>/dev/null; then break; fi
    done
    # Takes what is left; that it fails for want of room is the point.
    cat /dev/zero 2>/dev/null >"$data/.full" || true
    for _ in $(seq $((give_up_seconds * 5))); do
        kill -0 "$pid" 2>/dev/null || { rm -f "$pid_file"; return 0; }
        sleep 0.2
    done
    die "broker $node goes on without room on its disk after $give_up_seconds s"
}

clear_disk() {
    mountpoint -q "$data" || die "broker $node has no disk of its own: that is broker 3, as root"
    mount -o "remount,size=$disk_size" "$data"
    rm -f "$data/.full"
}

node() {
    is_ours || die "cannot disturb the brokers named by KVSET_TEST_BROKERS"
    case "${1:-}" in
        1 | 2 | 3) use_node "$1" ;;
        *) die "node takes 1, 2 or 3, not '${1:-}'" ;;
    esac
    case "${2:-}" in
        kill) halt --kill ;;
        start) if ! broker_pid >/dev/null; then launch; fi ;;
        stall) stall "${3:?for how many seconds}" ;;
        cut) link down ;;
        mend) link up ;;
        fill) fill ;;
        clear) clear_disk ;;
        *) die "node N takes kill, start, stall, cut, mend, fill or clear, not '${2:-}'" ;;
    esac
}
