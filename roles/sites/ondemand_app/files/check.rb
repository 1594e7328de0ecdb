  # What a user may ask for. The form says so too, but a request need not come from the form.
  require "json"
  require "yaml"
  trueup_rules = JSON.parse(<<'RULES')
@RULES@
RULES
  trueup_job = lambda do |given|
    refuse = ->(text) { raise ArgumentError, text }
    chosen = lambda do |field, allowed|
      value = given.fetch(field).to_s
      allowed.include?(value) || refuse.call("#{field} is #{value.inspect}: choose one of #{allowed.join(", ")}.")
      value
    end
    counted = lambda do |field, most|
      text = given.fetch(field).to_s.strip
      (text.match?(/\A[1-9][0-9]{0,5}\z/) && text.to_i <= most) ||
        refuse.call("#{field} is #{text.inspect}: give a whole number from 1 to #{most}.")
      text.to_i
    end

    cluster = chosen.call("cluster", trueup_rules["clusters"])
    here = trueup_rules["partitions"].select { |each| each.fetch("cluster", cluster) == cluster }
    partition = chosen.call("partition", here.map { |each| each["name"] })
    limits = here.find { |each| each["name"] == partition }
    benchmark = chosen.call("benchmark", trueup_rules["benchmarks"])
    nodes = counted.call("nodes", limits["nodes_max"] || trueup_rules["nodes_max"])
    hours = counted.call("hours", limits["hours_max"] || trueup_rules["hours_max"])

    text = given.fetch("variables").to_s
    text.bytesize <= 65_536 || refuse.call("variables have #{text.bytesize} bytes: give at most 65536.")
    begin
      variables = YAML.safe_load(text) || {}
    rescue Psych::Exception => error
      refuse.call("variables are not plain YAML or JSON: #{error.message}.")
    end
    variables.is_a?(Hash) || refuse.call("variables are no mapping: write each as name: value.")
    # Ansible would run what stands in a template, on every node.
    plain = lambda do |value|
      case value
      when Hash then value.all? { |name, each| plain.call(name) && plain.call(each) }
      when Array then value.all?(&plain)
      when String then !value.match?(/\{[%#\{]/)
      when Float then value.finite?
      else [NilClass, TrueClass, FalseClass, Integer].any? { |type| value.is_a?(type) }
      end
    end
    variables.each do |name, value|
      name.to_s.match?(/\A#{benchmark}_[a-z0-9_]+\z/) ||
        refuse.call("variables: #{name.inspect} is not of the benchmark #{benchmark}: its variables begin with " \
                    "#{benchmark}_.")
      %w[nodes hosts launcher launchers].map { |word| "#{benchmark}_#{word}" }.include?(name) &&
        refuse.call("variables: #{name} comes from the job's allocation: leave it out.")
      plain.call(value) || refuse.call("variables: #{name} has a template, and only plain values are taken.")
    end

    native = ["--nodes=#{nodes}", "--exclusive", "--mem=0", "--partition=#{partition}", "--time=#{hours * 60}"]
    # What the site gives; a user's own goes before it.
    variables = trueup_rules["variables"].fetch(benchmark).merge(variables)
    { "benchmark" => benchmark, "nodes" => nodes, "variables" => variables,
      "native" => native + trueup_rules["sbatch_arguments"] }
  end
