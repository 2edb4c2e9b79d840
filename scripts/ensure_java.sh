#!/bin/sh
# Makes sure that Spark will find Java 17 or newer: finds it, installs it where it may, or says what to do.
set -eu

JAVA_VERSION_MIN=17

say() { printf 'java: %s\n' "$*"; }

# The java that Spark will run: JAVA_HOME goes before PATH, even when it is wrong.
java_command() {
    if [ -n "${JAVA_HOME:-}" ]; then
        printf '%s\n' "$JAVA_HOME/bin/java"
    else
        printf 'java\n'
    fi
}

# Prints the major version ("1.8.0_292" is 8, "17.0.15" is 17); nothing when there is no working java.
java_major() {
    { "$(java_command)" -version 2>&1 || true; } |
        sed -n 's/.* version "\([^"]*\)".*/\1/p' |
        sed -n '1{s/^1\.//;s/[^0-9].*//;p;}'
}

java_is_enough() {
    major=$(java_major)
    [ -n "$major" ] && [ "$major" -ge "$JAVA_VERSION_MIN" ]
}

# Runs a command as root; fails when that would need a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    command -v apt-get >/dev/null 2>&1 && as_root true 2>/dev/null
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$1"
}

install_java() {
    say "installing openjdk-17-jre-headless with apt-get"
    as_root apt-get update -qq || say "apt-get update failed; trying with the lists at hand"
    apt_install openjdk-17-jre-headless && return
    say "openjdk-17-jre-headless cannot be installed; trying openjdk-21-jre-headless"
    apt_install openjdk-21-jre-headless
}

explain() {
    major=$(java_major)
    if [ -n "${JAVA_HOME:-}" ]; then
        found="JAVA_HOME is $JAVA_HOME, which holds ${major:+Java }${major:-no working java}"
    elif [ -n "$major" ]; then
        found="the java on PATH is Java $major"
    else
        found="there is no JAVA_HOME and no working java on PATH"
    fi
    cat >&2 <<MESSAGE
java: Spark needs Java $JAVA_VERSION_MIN or newer; $found.
java: install one, then run the same make command again:
java:   Debian, Ubuntu   sudo apt-get update && sudo apt-get install openjdk-17-jre-headless
java:                    (or openjdk-21-jre-headless where there is no 17)
java:   Fedora           sudo dnf install java-21-openjdk-headless
java:   macOS            brew install openjdk@17
java:                    export JAVA_HOME="\$(brew --prefix openjdk@17)/libexec/openjdk.jdk/Contents/Home"
java: or set JAVA_HOME to a Java $JAVA_VERSION_MIN you have; a JAVA_HOME that is set goes before PATH.
MESSAGE
}

if java_is_enough; then
    say "found Java $major ($(java_command))"
    exit 0
fi
# With JAVA_HOME set, a package would not help: Spark would still run the one in JAVA_HOME.
if [ -z "${JAVA_HOME:-}" ] && may_install && install_java && java_is_enough; then
    say "installed Java $major"
    exit 0
fi
explain
exit 1
