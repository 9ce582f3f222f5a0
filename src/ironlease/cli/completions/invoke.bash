# Completion of ironlease's tasks, flags, hosts, stacks and runs for bash.
# For this shell:  source <(./invoke --print-completion-script=bash)

_ironlease_complete() {
    local program=${COMP_WORDS[0]/#\~/$HOME}
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <("$program" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    # A folder is not the end of a path.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace
    fi
}

complete -F _ironlease_complete invoke inv
