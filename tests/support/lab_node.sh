#!/bin/bash
# The first process of a lab node (slurm_lab.py), in mount, network, host-name and PID namespaces of
# its own. It makes the node's root, says so, waits for its network, and then carries slurmd: when it
# is killed, everything on the node is gone, as when a machine loses its power.
#
#   lab_node.sh NAME ADDRESS LAB USER LOWER COVER...
#
# LOWER is the folder the node's root shows, read-only ("/" for this machine's own system); COVER are
# folders of it that are hidden. LAB holds slurm.conf and munge's socket, and the node's own folder.
set -eu
name=$1 address=$2 lab=$3 user=$4 lower=$5
shift 5

root=$lab/node/$name/root
own=$lab/node/$name/own

# What is written on the node goes into memory and away with it.
fresh() {  # FOLDER MODE
  [ -d "$root$1" ] || mkdir -p "$root$1" 2>/dev/null || return 0  # Not there: nothing to hide.
  mount -t tmpfs -o "mode=$2,size=25%" lab "$root$1"
}
show() {  # FOLDER, at the same place
  mkdir -p "$root$1"
  mount --bind "$1" "$root$1"
}

mount --bind "$lower" "$root"
mount -o remount,bind,ro "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sys "$root/sys"
for folder in /dev/shm /tmp /var/tmp; do fresh $folder 1777; done
for folder in /run /home; do fresh $folder 755; done
fresh /root 700
for folder; do fresh "$folder" 755; done
# Seen by all: what a cluster's nodes have in common, and their own state.
show "$lab/etc"
show "$lab/munge"
show "$own"
[ ! -d "$lab/shared" ] || show "$lab/shared"
mount --bind "$lab/etc/hosts" "$root/etc/hosts"
install -d -m 700 -o "$user" "$root/home/$user"

echo ready
read -r _  # Now eth0 is there.
ip -batch - <<END
link set lo up
address add $address/24 dev eth0
link set eth0 up
END
hostname "$name"

# A bare root has no umount: the old one's is used, before it goes.
cd "$root"
pivot_root . run
cd /
libraries=/run/usr/lib/x86_64-linux-gnu
$libraries/ld-linux-x86-64.so.2 --library-path $libraries /run/usr/bin/umount -l /run
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 SLURM_CONF="$lab/etc/slurm.conf" \
  bash -c 'slurmd -N "$0"; echo up; exec <&- >&- 2>&-; while :; do sleep infinity & wait; done' "$name"
