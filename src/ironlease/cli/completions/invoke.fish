# Completion of ironlease's tasks, flags, hosts, stacks and runs for fish.
# For this shell:  ./invoke --print-completion-script=fish | source

function __ironlease_complete
    set -l words (commandline --tokenize --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l program (string replace --regex '^~' $HOME -- $words[1])
    $program --complete $words[2..] "$current" 2>/dev/null
end

complete --command invoke --command inv --no-files --arguments '(__ironlease_complete)'
