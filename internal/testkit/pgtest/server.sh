# Runs one throwaway PostgreSQL and ends with its starter: sh -c <this> server.sh BIN_DIR [INITDB_FLAG...]
#
# Prints "ready DIR" once the server answers on the socket in DIR, or what went wrong. Standard input is a pipe
# that only the starter holds open, so its end, by whatever death, is the signal to stop and to remove everything.
set -eu
bin=$1
shift
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-pg.XXXXXX")

finish() {
	"$bin/pg_ctl" stop -D "$dir/data" -m immediate >/dev/null 2>&1 || :
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM PIPE # PIPE: the starter died before it could be told

# A locale that does not sort by byte: what relies on the order of bytes has to ask for it.
if ! "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --no-sync --locale=C.UTF-8 \
	--locale-provider=icu --icu-locale=en "$@" >"$dir/log" 2>&1 </dev/null; then
	cat "$dir/log"
	exit 1
fi

# Durable as in production (fsync stays on), small in memory. No TCP: nothing to collide with.
cat >>"$dir/data/postgresql.conf" <<-END
	listen_addresses = ''
	unix_socket_directories = '$dir'
	max_connections = 300
	shared_buffers = 64MB
	max_wal_size = 256MB
	max_parallel_workers_per_gather = 0
	jit = off
END
start() {
	if ! "$bin/pg_ctl" start -w -t 60 -D "$dir/data" -l "$dir/log" >/dev/null 2>&1 </dev/null; then
		cat "$dir/log"
		exit 1
	fi
	echo "ready $dir"
}
start
while read -r _; do # whatever is said asks for a crash
	"$bin/pg_ctl" stop -D "$dir/data" -m immediate >/dev/null 2>&1 || :
	start
done
