# Completion of trainyard for fish. What can stand where is the binary's to say.

function __trainyard_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l kept (string match -r -- '^--[^=]*=' $current)
    set -l value (string replace -r -- '^--[^=]*=' '' "$current")
    for line in ($words[1] __complete -- $words[2..] "$current" 2>/dev/null)
        switch $line
            case ':files'
                printf "$kept%s\n" (__fish_complete_path $value)
            case ':folders'
                printf "$kept%s\n" (__fish_complete_directories $value '')
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
