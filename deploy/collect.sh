#!/bin/sh
# Puts what the image of one service holds into a new folder: the service, the libraries of ours that it uses, and
# their dependencies, without those of development; for a worker the example tools too. Run it at the root of a checkout that is built:
#   sh deploy/collect.sh gateway /tmp/gateway && cd /tmp/gateway && node apps/gateway/dist/main.js
set -eu
app=$1 target=$2
mkdir "$target"

# npm wants the manifests of all workspaces to believe its lockfile.
cp package.json package-lock.json "$target"
for manifest in apps/*/package.json libs/*/package.json examples/*/package.json; do
  mkdir -p "$target/${manifest%/*}"
  cp "$manifest" "$target/$manifest"
done
# Optional is a Node for machines with an older one; the image has its own.
workspaces="--workspace apps/$app"
if [ "$app" = worker ]; then workspaces="$workspaces --workspace examples/orders"; fi
# shellcheck disable=SC2086 # several words
(cd "$target" && npm ci $workspaces --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund)

for manifest in apps/*/package.json libs/*/package.json examples/*/package.json; do
  package=${manifest%/*}
  if [ -e "$target/node_modules/@holdfast/${package##*/}" ]; then
    for part in "$package"/*; do
      case ${part##*/} in
        src | node_modules | package.json | tsconfig.json) ;;
        *) cp -R "$part" "$target/$part" ;;
      esac
    done
  else
    rm -rf "${target:?}/$package"
  fi
done
rm -f "$target/package-lock.json" "$target/node_modules/.package-lock.json"
# A checkout made with umask 077 is for its owner alone; a service runs as somebody else.
chmod -R a+rX "$target"
