#!/bin/sh
# What somebody who knows the machine would type to get the same result as `invoke provision` on a fresh host: the
# yardstick of `invoke bench.provision`. Runs on the host, in a folder that holds plan.env (the plan's values as shell
# variables), requirements.txt, limits.conf, sysctl.conf, agent.pyz and node.json.
set -eu
cd "$(dirname "$0")"
# Written for each run.
# shellcheck source=/dev/null
. ./plan.env
export DEBIAN_FRONTEND=noninteractive

apt-get --quiet --quiet update
# A list of names, to be split:
# shellcheck disable=SC2086
apt-get --quiet --quiet --yes --no-install-recommends install $PACKAGES >/dev/null
useradd --system --create-home "$TRAINING_USER"
if [ -n "$TIME_SYNC_UNIT" ]; then
    systemctl enable --now "$TIME_SYNC_UNIT"
fi

install -D -m 0644 limits.conf /etc/security/limits.d/90-ironlease.conf
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nDefaultLimitMEMLOCK=infinity\n' >/etc/systemd/system.conf.d/90-ironlease.conf
systemctl daemon-reload
install -D -m 0644 sysctl.conf /etc/sysctl.d/90-ironlease.conf
sysctl --quiet --load=/etc/sysctl.d/90-ironlease.conf

"$PYTHON" -m venv "$ENVIRONMENT"
pip_install() {
    "$ENVIRONMENT/bin/pip" --quiet install --no-deps --require-hashes "$@" --requirement requirements.txt
}
# The default index first, as we do: it may have everything.
pip_install || pip_install --extra-index-url "$INDEX_URL"

install -D -m 0755 agent.pyz /opt/ironlease/node/agent.pyz
install -D -m 0644 node.json /etc/ironlease/node.json
printf '#!/bin/sh\nexec /usr/bin/python3 -I /opt/ironlease/node/agent.pyz "$@"\n' >/usr/local/bin/ironlease-node
chmod 0755 /usr/local/bin/ironlease-node
