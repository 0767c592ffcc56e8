#!/bin/sh
# Collects the files of one service image in a new folder: the service, the workspace libraries that it uses, and their
# production dependencies. A worker also gets the example tools. Run it at the root of a built checkout:
#   sh deploy/collect.sh gateway /tmp/gateway && cd /tmp/gateway && node apps/gateway/dist/main.js
set -eu
app=$1 target=$2
mkdir "$target"

# npm accepts its lockfile only with the manifests of all workspaces.
cp package.json package-lock.json "$target"
for manifest in apps/*/package.json libs/*/package.json examples/*/package.json; do
  mkdir -p "$target/${manifest%/*}"
  cp "$manifest" "$target/$manifest"
done
# The optional dependencies are a Node for machines with an older one; the image has its own Node.
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
# With umask 077 only the owner can read a checkout, but a service runs as another user.
chmod -R a+rX "$target"
