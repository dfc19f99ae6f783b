#!/usr/bin/env bash
# Build the container image, and see it healthy:
#
#     scripts/image.sh build   make the image from the Dockerfile
#     scripts/image.sh check   start it with the demo, wait until its own health check passes, stop it
#
# With docker or podman where an engine answers. Without one, as root on Debian, with buildah and debootstrap:
# buildah runs each step in a chroot, and Debian's own Python stands in for the base image, so that neither a
# daemon nor an image registry is needed. That image is for trying the Dockerfile, not for shipping; it lives in
# a store of its own below build/, so that the stand-in never answers to the base's name anywhere else.
#
# ENGINE=docker|podman|buildah chooses by hand, IMAGE names the result.
set -euo pipefail
cd "$(dirname "$0")/.."

image=${IMAGE:-think-proxy}
store=$PWD/build/image
# The release of Debian whose python3 is the version of the base image.
debian_suite=trixie
base=$(awk '$1 == "FROM" { print $2; exit }' Dockerfile)
# A list, not a function: in the background a function would be a shell of its own, and its number not buildah's.
buildah=(buildah --root "$store/root" --runroot "$store/run")
cleanup=()

say() { echo "image: $*" >&2; }

fail() {
  say "$*"
  exit 1
}

# Commands that undo what was started, last one first; a step that fails does not stop the ones after it.
leave() {
  local i
  for ((i = ${#cleanup[@]} - 1; i >= 0; i--)); do eval "${cleanup[i]}" || true; done
}
trap leave EXIT

engine() {
  local name
  for name in docker podman; do
    # A client without a daemon prints its version too; `info` asks the engine.
    if command -v "$name" >/dev/null && "$name" info >/dev/null 2>&1; then
      echo "$name"
      return
    fi
  done
  [[ $(id -u) == 0 ]] || fail 'no docker or podman answers; building without them needs root'
  for name in buildah debootstrap; do
    command -v "$name" >/dev/null || fail "no docker or podman answers, and $name is not installed:" \
      'apt-get install --no-install-recommends buildah debootstrap'
  done
  echo buildah
}

drop() { "${buildah[@]}" rm "$1" >/dev/null; }

# Make Debian's Python into an image that answers to the name in FROM: `python` under /usr/local/bin, with venv.
make_base() {
  local root made version=${base#*:}
  version=${version%%-*}
  mkdir -p "$store"
  root=$(mktemp -d "$store/base.XXXXXX")
  cleanup+=("rm -rf --one-file-system '$root'")
  say "making a base for $base from Debian $debian_suite"
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$debian_suite" "$root" \
    >"$store/debootstrap.log" || fail "debootstrap failed, see $store/debootstrap.log"
  rm -f "$root"/var/cache/apt/archives/*.deb
  ln -s /usr/bin/python3 "$root/usr/local/bin/python3"
  ln -s python3 "$root/usr/local/bin/python"
  [[ -x $root/usr/bin/python$version ]] ||
    fail "Debian $debian_suite has no Python $version, which the Dockerfile asks for"
  made=$("${buildah[@]}" from scratch)
  cleanup+=("drop '$made'")
  "${buildah[@]}" add --quiet "$made" "$root" / >/dev/null
  "${buildah[@]}" config --env PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin "$made"
  "${buildah[@]}" commit --quiet --format docker "$made" "$base" >/dev/null
}

build_with_buildah() {
  "${buildah[@]}" inspect --type image "$base" >/dev/null 2>&1 || make_base
  # The host's certificates: where a company's own root signs for the package index, the base does not know it.
  # docker is the format that has health checks.
  "${buildah[@]}" build --isolation chroot --pull-never --layers --format docker \
    -v /etc/ssl/certs:/etc/ssl/certs:ro --tag "$image" .
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Read a list from the image's configuration into `list`.
read_list() {
  mapfile -t list < <("${buildah[@]}" inspect --type image --format "{{range .Docker.Config.$1}}{{println .}}{{end}}" \
    "$image" | sed '/^$/d')
  ((${#list[@]})) || fail "the image has no $1"
}

check_with_buildah() {
  local list entrypoint health container log pid port
  read_list Entrypoint
  entrypoint=("${list[@]}")
  read_list Healthcheck.Test
  # The first word is the form, CMD.
  health=("${list[@]:1}")
  port=$(free_port)
  container=$("${buildah[@]}" from --pull-never "$image")
  cleanup+=("drop '$container'")
  # A chroot shares the host's network, so the port must be one that is free here.
  local run=("${buildah[@]}" run --isolation chroot --env "THINK_PROXY_LISTEN__PORT=$port" "$container" --)
  log=$(mktemp "$store/check.XXXXXX")
  cleanup+=("rm -f '$log'")
  "${run[@]}" "${entrypoint[@]}" demo >"$log" 2>&1 &
  pid=$!
  cleanup+=("stop '$pid'")
  for ((i = 0; i < 60; i++)); do
    kill -0 "$pid" 2>/dev/null || break
    if "${run[@]}" "${health[@]}" 2>/dev/null; then
      cat "$log" >&2
      say "healthy on port $port"
      return
    fi
    sleep 0.5
  done
  cat "$log" >&2
  fail 'never became healthy'
}

stop() {
  kill -TERM "$1" 2>/dev/null && wait "$1"
}

check_with_engine() {
  local container state=none
  # As docker-compose.yml and a careful cluster would run it: nothing writable, no capability.
  container=$("$1" run --detach --read-only --cap-drop ALL "$image" demo)
  cleanup+=("$1 rm --force '$container' >/dev/null")
  for ((i = 0; i < 60; i++)); do
    state=$("$1" inspect --format '{{.State.Health.Status}}' "$container")
    [[ $state == healthy ]] && break
    sleep 1
  done
  "$1" logs "$container" >&2
  [[ $state == healthy ]] || fail "never became healthy: $state"
  say healthy
}

command=${1:-build}
engine=${ENGINE:-$(engine)}
case $command:$engine in
  build:docker) docker build --tag "$image" . ;;
  build:podman) podman build --format docker --tag "$image" . ;;
  build:buildah) build_with_buildah ;;
  check:docker | check:podman) check_with_engine "$engine" ;;
  check:buildah) check_with_buildah ;;
  *) fail "no such command or engine: $command, $engine" ;;
esac
