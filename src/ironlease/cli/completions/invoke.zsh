#compdef invoke inv
# Completion of ironlease's tasks, flags, hosts, stacks and runs for zsh.
# For this shell:  source <(./invoke --print-completion-script=zsh)

_ironlease_complete() {
    local program=${words[1]/#\~/$HOME}
    local -a candidates folders
    candidates=("${(@f)$("$program" --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    folders=("${(@M)candidates:#*/}")
    candidates=("${(@)candidates:#*/}")
    # A folder is not the end of a path.
    compadd -S '' -- "${(@)folders:#}"
    compadd -- "${(@)candidates:#}"
}

compdef _ironlease_complete invoke inv
