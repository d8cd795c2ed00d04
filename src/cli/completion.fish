# Completion of trainyard for fish. What can stand where is the binary's to say.

function __trainyard_complete
    set -l words (commandline -opc)
    set -l current (string replace -r -- '^[\'"]' '' (commandline -ct) | string replace -a '\\' '')
    set -l kept (string match -r -- '^--[^=]*=' "$current"; or echo)
    set -l value (string replace -r -- '^--[^=]*=' '' "$current")
    for line in ($words[1] __complete -- $words[2..] "$current" 2>/dev/null)
        switch $line
            case ':files'
                for path in (__fish_complete_path $value)
                    printf '%s\n' $kept$path
                end
            case ':folders'
                for path in (__fish_complete_directories $value '')
                    printf '%s\n' $kept$path
                end
            case ':command *'
                set -l before (string replace ':command ' '' -- $line)
                set -l command (string escape -- $words[(math $before + 2)..])
                complete -C "$command $current"
            case '*'
                printf '%s\n' $line
        end
    end
end

complete -c trainyard -f -a '(__trainyard_complete)'
